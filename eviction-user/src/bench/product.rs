//! A whole `eviction run` as a child process, with its records.

use super::BenchError;
use super::helper::{OWN_PROGRAM, dies_with_us};
use crate::sys::clock;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Loading the programs takes a good part of a second in a debug build.
const STARTING: Duration = Duration::from_secs(60);

const FAR_LINES: &str =
    "memory.available<1%,nodefs.available<1%,nodefs.inodesFree<1%,pid.available<1%";

pub(super) struct Product {
    child: Child,
    records: Receiver<Value>,
    /// What it said when all lines were armed.
    pub(super) started: Value,
}

impl Product {
    /// Watches `root` and the file system of `directory`, with a line of each kind armed far from where the node is; kills
    /// nobody, whatever it should find.
    pub(super) fn watching(
        root: &Path,
        directory: &Path,
        more: &[String],
    ) -> Result<Self, BenchError> {
        let mut args = vec![
            format!("--root={}", root.display()),
            format!("--nodefs={}", directory.display()),
            format!("--eviction-hard={FAR_LINES}"),
            "--dry-run".to_owned(),
        ];
        args.extend(more.iter().cloned());
        Self::start(&args)
    }

    /// Returns when its lines are armed.
    pub(super) fn start(args: &[String]) -> Result<Self, BenchError> {
        let mut command = Command::new(OWN_PROGRAM);
        command
            .args([
                "--log-level=error",
                "run",
                "--platform=host",
                "--output=json",
            ])
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut child = dies_with_us(&mut command)
            .spawn()
            .map_err(BenchError::system("start `eviction run`"))?;
        let (sender, records) = channel();
        let lines = child.stdout.take().map(BufReader::new);
        std::thread::spawn(move || {
            let lines = lines.into_iter().flat_map(BufRead::lines);
            for line in lines.map_while(Result::ok) {
                let record = serde_json::from_str(&line).unwrap_or(Value::String(line));
                if sender.send(record).is_err() {
                    return;
                }
            }
        });
        let mut product = Self {
            child,
            records,
            started: Value::Null,
        };
        product.started = product.wait_for("started", STARTING)?;
        Ok(product)
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The hook that it uses for `family`.
    pub(super) fn rung(&self, family: &str) -> String {
        self.started[family]
            .as_str()
            .unwrap_or("unknown")
            .to_owned()
    }

    /// Where each family's events come from.
    pub(super) fn sources(&self) -> BTreeMap<String, String> {
        let sources = self.started["sources"].as_object().into_iter().flatten();
        let named = |(family, source): (&String, &Value)| {
            Some((family.clone(), source.as_str()?.to_owned()))
        };
        sources.filter_map(named).collect()
    }

    /// Is this hook the first of its family?
    pub(super) fn uses(&self, rung: &str) -> bool {
        self.sources().values().any(|source| source == rung)
    }

    /// The next record of that kind.
    pub(super) fn wait_for(
        &mut self,
        kind: &'static str,
        limit: Duration,
    ) -> Result<Value, BenchError> {
        let began = clock::now();
        loop {
            let left = limit.saturating_sub(clock::elapsed_since(began));
            match self.records.recv_timeout(left) {
                Ok(record) if record["record"] == kind => return Ok(record),
                Ok(_) => {}
                Err(_) => return Err(BenchError::NoRecord { kind, limit }),
            }
        }
    }
}

impl Drop for Product {
    fn drop(&mut self) {
        // Fails only when it has ended already; waiting then only collects it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
