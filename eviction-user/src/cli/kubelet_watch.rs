//! The kubelet whose settings we go by, followed: it may be started again with others. What is only told then is told; where pods
//! lie is taken once, so a change of that keeps `/readyz` from saying yes until we are started again.

use super::kube_args::KubeArgs;
use super::kubelet_args::{Found, KubeletArgs};
use super::pairing;
use crate::config::{Effective, PodsLayout, Row};
use crate::sys::pidfd::PidFd;
use crate::telemetry::metrics::Check;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

/// Looked for so often when it has ended.
const AGAIN: Duration = Duration::from_secs(1);
/// It tells by itself so many tries after its start; then its files count.
const TRIES: u32 = 20;
/// Waited for so long at a time; it lives for months.
const LONG: Duration = Duration::from_secs(60);

/// Where pods lie, by the names of the kubelet's settings.
type Places = BTreeMap<&'static str, String>;

#[derive(Debug)]
pub(super) struct KubeletWatch {
    args: KubeletArgs,
    node: Option<String>,
    kubeconfig: Option<PathBuf>,
    /// It has told itself, and is asked again.
    is_live: bool,
    /// Its files count only as long as it does not tell itself.
    may_answer: bool,
    /// What we evict at.
    ours: Effective,
    /// That a flag names, whatever the kubelet says.
    given: Vec<&'static str>,
    /// As they are used.
    places: Places,
    /// All its settings, as they were told last.
    settings: Vec<Row>,
    pid: i32,
    answer: Result<String, String>,
}

impl KubeletWatch {
    /// `None`: no process of it is to be seen. `given`: settings that a flag wins over.
    pub(super) fn of(
        args: &KubeArgs,
        ours: &Effective,
        found: &Found,
        given: Vec<&'static str>,
    ) -> Option<Self> {
        let places = places(ours, found, &given);
        Some(Self {
            args: args.kubelet.clone(),
            node: args.node().map(str::to_owned),
            kubeconfig: args.kubeconfig.clone(),
            is_live: found.is_live,
            may_answer: found.may_answer,
            ours: ours.clone(),
            answer: state(ours, found, &places, &places),
            given,
            places,
            settings: found.settings.rows(),
            pid: found.pid?,
        })
    }

    /// For `/readyz`; whatever it tells is also logged when it changes.
    pub(super) fn check(self) -> io::Result<Check> {
        let said = Arc::new(Mutex::new(self.answer.clone()));
        let shared = Arc::clone(&said);
        std::thread::Builder::new()
            .name("eviction-kubelet".into())
            .spawn(move || self.follow(&shared))?;
        Ok(Box::new(move || {
            said.lock().unwrap_or_else(PoisonError::into_inner).clone()
        }))
    }

    fn follow(mut self, said: &Mutex<Result<String, String>>) {
        loop {
            if let Some(found) = self.until_ended() {
                let now = self.hear(&found);
                *said.lock().unwrap_or_else(PoisonError::into_inner) = now;
                continue;
            }
            let ended = format!(
                "kubelet: process {} has ended, another is not to be seen\n",
                self.pid
            );
            *said.lock().unwrap_or_else(PoisonError::into_inner) = Ok(ended);
            let found = self.until_found();
            let now = self.take(&found);
            self.is_live = found.is_live;
            self.may_answer = found.may_answer;
            *said.lock().unwrap_or_else(PoisonError::into_inner) = now;
        }
    }

    /// `None`: it has ended; else what it tells itself at last (at our start it may not have served yet).
    fn until_ended(&self) -> Option<Found> {
        let process = PidFd::open(self.pid).ok()?;
        let mut pause = if self.may_answer { AGAIN } else { LONG };
        while process.ends_within(pause) == Ok(false) {
            let told = self.may_answer.then(|| self.find()).flatten();
            if let Some(found) = told.filter(|told| told.is_live && told.pid == Some(self.pid)) {
                return Some(found);
            }
            pause = (pause * 2).min(LONG);
        }
        None
    }

    fn find(&self) -> Option<Found> {
        let (node, kubeconfig) = (self.node.as_deref(), self.kubeconfig.as_deref());
        self.args.find(node, kubeconfig).ok()
    }

    fn until_found(&mut self) -> Found {
        let mut tries = 0;
        loop {
            sleep(AGAIN);
            let Some(found) = self.find() else {
                continue;
            };
            let Some(pid) = found.pid else {
                continue;
            };
            tries += 1;
            // What it says itself is not word for word what its files say.
            if self.is_live && !found.is_live && tries < TRIES {
                continue;
            }
            self.pid = pid;
            return found;
        }
    }

    /// The same process, by its own word now.
    fn hear(&mut self, found: &Found) -> Result<String, String> {
        tracing::info!("the kubelet is asked itself from here on: {}", found.from);
        self.is_live = true;
        self.may_answer = false;
        self.settings = found.settings.rows();
        self.told(found)
    }

    /// Tells what is another, and returns what `/readyz` is to say.
    fn take(&mut self, found: &Found) -> Result<String, String> {
        let pid = self.pid;
        if found.settings.effective.is_none() {
            for doubt in &found.doubts {
                tracing::warn!("the kubelet was started again (process {pid}): {doubt}");
            }
            return Ok(format!(
                "kubelet: process {pid}, whose settings are not known: those of the one before count\n"
            ));
        }
        let now = found.settings.rows();
        // What it says itself and what stands in its files are not word for word the same.
        let are_alike = self.is_live == found.is_live;
        let changes = if are_alike {
            changes(&self.settings, &now)
        } else {
            Vec::new()
        };
        if !are_alike {
            tracing::info!(
                "the kubelet was started again (process {pid}), by {}",
                found.from
            );
        } else if changes.is_empty() {
            tracing::info!("the kubelet was started again (process {pid}), with the same settings");
        } else {
            tracing::warn!(
                "the kubelet was started again (process {pid}), with other settings: {}",
                changes.join(", ")
            );
            if let Some(kubelets) = &found.settings.effective {
                pairing::warn(&self.ours, kubelets);
            }
        }
        self.settings = now;
        self.told(found)
    }

    fn told(&self, found: &Found) -> Result<String, String> {
        let answer = state(
            &self.ours,
            found,
            &self.places,
            &places(&self.ours, found, &self.given),
        );
        if let Err(wrong) = &answer {
            tracing::warn!("{}", wrong.trim_end());
        }
        answer
    }
}

fn places(ours: &Effective, found: &Found, given: &[&str]) -> Places {
    let layout = PodsLayout::of(ours, &found.settings);
    let mut places = Places::from([
        ("cgroupRoot", layout.cgroup_root.value),
        ("cgroupDriver", layout.cgroup_driver.value),
        ("podLogsDir", layout.pod_logs.value.display().to_string()),
        ("the runtime's endpoint", layout.runtime.value),
    ]);
    let root = layout.root_dir.map(|root| root.value.display().to_string());
    places.extend(root.map(|root| ("--root-dir", root)));
    places.retain(|name, _| !given.contains(name));
    places
}

/// What is to be said of it. `used`: its places as they were when we were started.
fn state(ours: &Effective, found: &Found, used: &Places, now: &Places) -> Result<String, String> {
    let moved: Vec<_> = now
        .iter()
        .filter_map(|(name, now)| {
            let used = used.get(name).filter(|used| *used != now)?;
            Some(format!("{name} {now:?} (in use: {used:?})"))
        })
        .collect();
    if !moved.is_empty() {
        return Err(format!(
            "kubelet: started again with {}: start eviction again\n",
            moved.join(", ")
        ));
    }
    let mut said = format!("kubelet: by {}\n", found.from);
    let kubelets = found.settings.effective.iter();
    let close = kubelets.flat_map(|kubelets| pairing::compare(ours, kubelets));
    for told in close.filter(|told| told.fix.is_some()) {
        said.push_str(&format!("  {}: {}\n", told.signal, told.detail));
    }
    Ok(said)
}

/// Settings that have another value, in words.
fn changes(before: &[Row], now: &[Row]) -> Vec<String> {
    let values = |rows: &[Row]| -> BTreeMap<String, (String, String)> {
        let rows = rows.iter().cloned();
        rows.map(|row| (row.key, (row.value, row.source))).collect()
    };
    let (before, now) = (values(before), values(now));
    let gone = before.keys().filter(|key| !now.contains_key(*key));
    let gone: Vec<_> = gone.map(|key| format!("{key} is gone")).collect();
    let others = now.iter().filter_map(|(key, (value, source))| {
        let was = before.get(key).map(|(was, _)| was);
        let was = match was {
            Some(was) if was == value => return None,
            Some(was) => format!(", was {was}"),
            None => String::new(),
        };
        Some(format!("{key} {value} ({source}{was})"))
    });
    others.chain(gone).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(key: &str, value: &str) -> Row {
        Row {
            key: key.to_owned(),
            value: value.to_owned(),
            source: "k.yaml:1".to_owned(),
        }
    }

    #[test]
    fn what_has_another_value_is_told_with_what_it_was() {
        let before = [row("a", "1"), row("b", "2"), row("c", "3")];
        let now = [row("a", "1"), row("b", "20"), row("d", "4")];
        assert_eq!(
            changes(&before, &now),
            ["b 20 (k.yaml:1, was 2)", "d 4 (k.yaml:1)", "c is gone"]
        );
        assert_eq!(changes(&before, &before), [""; 0]);
    }

    #[test]
    fn a_place_that_is_another_than_the_one_in_use_is_said_until_it_is_the_same_again() {
        let ours = Effective::load(None, &crate::config::EvictionFlags::default()).unwrap();
        let found = Found {
            from: "k.yaml".to_owned(),
            ..Found::default()
        };
        let used = places(&ours, &found, &["podLogsDir"]);
        assert!(!used.contains_key("podLogsDir"), "{used:?}");
        assert_eq!(
            state(&ours, &found, &used, &used),
            Ok("kubelet: by k.yaml\n".to_owned())
        );
        let mut moved = used.clone();
        moved.insert("cgroupRoot", "/other".to_owned());
        let wrong = state(&ours, &found, &used, &moved).unwrap_err();
        assert_eq!(
            wrong,
            "kubelet: started again with cgroupRoot \"/other\" (in use: \"\"): start eviction again\n"
        );
    }
}
