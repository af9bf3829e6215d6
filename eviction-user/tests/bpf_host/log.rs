//! `--bpf-log`: the programs' own words.

use std::{
    io::Write,
    sync::{Arc, Mutex, PoisonError},
};

use eviction_user::bpf::{Facts, Family, Rung};
use tracing_subscriber::fmt::MakeWriter;

use crate::{
    Outcome, Verdict, attach, collect,
    memory::{COMES, MIB, Scene},
    not_attached, runtime,
    scratch::Cgroup,
};

#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Captured {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Captured {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// The verifier has to take every program with its logging code, and a crossing leaves a line; without being asked,
/// nothing can be read.
pub(crate) fn the_programs_speak(facts: &Facts) -> Outcome {
    let runtime = runtime()?;
    let guard = runtime.enter();
    let mut speaking = None;
    for rung in Rung::ALL {
        match attach(facts, &[rung], true) {
            Ok(attached) if attached.report().of(Family::Memory).is_attached() => {
                speaking = Some(attached)
            }
            Ok(_) => {}
            Err(reason) => {
                not_attached(reason)?;
            }
        }
    }
    let Some(mut attached) = speaking else {
        return Ok(Verdict::Skipped("no memory hook attaches here".into()));
    };
    let reader = attached
        .log_reader()
        .ok_or("no reader although the log is on")?;
    let cgroup = match Cgroup::new(facts, "log") {
        Ok(cgroup) => cgroup,
        Err(reason) => return Ok(Verdict::Skipped(reason)),
    };
    let mut scene = Scene::new(attached, cgroup)?;
    drop(guard);
    let captured = Captured::default();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(captured.clone())
        .finish();
    let _quiet_elsewhere = tracing::subscriber::set_default(subscriber);
    runtime.block_on(async {
        scene.arm(4 * MIB, false)?;
        scene.load.command("touch 8")?;
        if collect(&mut scene.events, COMES, 1).await?.is_empty() {
            return Err("no event, so nothing to speak of".into());
        }
        let heard = async {
            while !captured.text().contains("crossed: limit") {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
        };
        tokio::select! {
            stopped = reader.run() => return Err(format!("the reader stopped: {stopped:?}").into()),
            () = heard => {}
            () = tokio::time::sleep(COMES) => return Err(format!("only this was heard: {:?}", captured.text()).into()),
        }
        let mut silent = match attach(facts, &[Rung::TracePageAlloc], false) {
            Ok(attached) => attached,
            Err(reason) => return not_attached(reason),
        };
        if silent.log_reader().is_some() {
            return Err("a reader although the log is off".into());
        }
        Ok(Verdict::Passed)
    })
}
