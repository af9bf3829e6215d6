//! What the user says of a workload: `NAME:priority=N,request=Q,grace=SECONDS,dir=PATH,protect`.

use crate::model::Quantity;
use std::path::PathBuf;
use std::str::FromStr;

/// One `--workload` argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadSpec {
    /// Name of the child cgroup.
    pub name: String,
    pub priority: i32,
    /// Promised memory in bytes; `None`: `memory.low` says it.
    pub request: Option<u64>,
    /// How many seconds it needs to end by itself; `None`: as long as a soft threshold allows at most.
    pub grace_secs: Option<i64>,
    /// A directory whose content all belongs to this workload.
    pub dir: Option<PathBuf>,
    pub protect: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadSpecError {
    #[error("a workload needs the name of a child cgroup before the colon, as in web:priority=10")]
    NoName,
    #[error("workload {name}: {name} is a path; give the name of a direct child of --root")]
    Path { name: String },
    #[error(
        "workload {name}: unknown key {key}; known are priority=N, request=QUANTITY, grace=SECONDS, dir=PATH, protect"
    )]
    UnknownKey { name: String, key: String },
    #[error(
        "workload {name}: priority={value} is not a whole number from -2147483648 to 2147483647"
    )]
    Priority { name: String, value: String },
    #[error("workload {name}: grace={value} is not a whole number of seconds from 0 on")]
    Grace { name: String, value: String },
    #[error("workload {name}: request={value}: {reason}")]
    Request {
        name: String,
        value: String,
        reason: String,
    },
    #[error("workload {name}: {key} is given twice")]
    Twice { name: String, key: &'static str },
}

impl FromStr for WorkloadSpec {
    type Err = WorkloadSpecError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, settings) = text.split_once(':').unwrap_or((text, ""));
        let name = name.trim().to_owned();
        if name.is_empty() {
            return Err(WorkloadSpecError::NoName);
        }
        if name.contains('/') {
            return Err(WorkloadSpecError::Path { name });
        }
        let (mut priority, mut request, mut grace, mut dir, mut protect) =
            (None, None, None, None, None);
        for setting in settings.split(',').map(str::trim).filter(|s| !s.is_empty()) {
            let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
            let value = value.trim();
            let twice = match (key.trim(), setting.contains('=')) {
                ("priority", true) => {
                    let parsed = value.parse().map_err(|_| WorkloadSpecError::Priority {
                        name: name.clone(),
                        value: value.to_owned(),
                    })?;
                    priority.replace(parsed).map(|_| "priority")
                }
                ("grace", true) => {
                    let seconds = value.parse::<u32>().map_err(|_| WorkloadSpecError::Grace {
                        name: name.clone(),
                        value: value.to_owned(),
                    })?;
                    grace.replace(i64::from(seconds)).map(|_| "grace")
                }
                ("request", true) => request.replace(bytes(&name, value)?).map(|_| "request"),
                ("dir", true) => dir.replace(PathBuf::from(value)).map(|_| "dir"),
                ("protect", false) => protect.replace(true).map(|_| "protect"),
                _ => {
                    return Err(WorkloadSpecError::UnknownKey {
                        name,
                        key: setting.to_owned(),
                    });
                }
            };
            if let Some(key) = twice {
                return Err(WorkloadSpecError::Twice { name, key });
            }
        }
        Ok(Self {
            name,
            priority: priority.unwrap_or(0),
            request,
            grace_secs: grace,
            dir,
            protect: protect.unwrap_or(false),
        })
    }
}

fn bytes(name: &str, value: &str) -> Result<u64, WorkloadSpecError> {
    let error = |reason: String| WorkloadSpecError::Request {
        name: name.to_owned(),
        value: value.to_owned(),
        reason,
    };
    let quantity: Quantity = value.parse().map_err(|e| error(format!("{e}")))?;
    u64::try_from(quantity.value()).map_err(|_| error("must not be negative".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_and_their_defaults() {
        let spec: WorkloadSpec = "db:priority=-5,request=256Mi,grace=20,dir=/var/lib/db,protect"
            .parse()
            .unwrap();
        assert_eq!(
            (
                spec.name.as_str(),
                spec.priority,
                spec.request,
                spec.protect
            ),
            ("db", -5, Some(256 << 20), true)
        );
        assert_eq!(
            spec.dir.as_deref(),
            Some(std::path::Path::new("/var/lib/db"))
        );
        assert_eq!(spec.grace_secs, Some(20));
        let bare: WorkloadSpec = "hog".parse().unwrap();
        assert_eq!(
            (bare.priority, bare.request, bare.dir, bare.protect),
            (0, None, None, false)
        );
        assert_eq!(bare.grace_secs, None);
    }

    #[test]
    fn every_mistake_is_named_with_its_workload() {
        for (text, said) in [
            (":priority=1", "needs the name"),
            ("a/b:protect", "direct child"),
            ("web:prio=1", "unknown key prio=1"),
            ("web:protect=yes", "unknown key protect=yes"),
            ("web:priority", "unknown key priority"),
            ("web:priority=high", "priority=high is not a whole number"),
            ("web:grace=-1", "grace=-1 is not a whole number of seconds"),
            ("web:request=12Q", "request=12Q"),
            ("web:request=-1", "must not be negative"),
            ("web:priority=1,priority=2", "priority is given twice"),
        ] {
            let error = text.parse::<WorkloadSpec>().unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
