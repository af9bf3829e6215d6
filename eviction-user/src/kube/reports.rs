//! Writes to the API what was decided, off the fast path, and follows each victim until its kubelet has torn it down.

use super::asks::Asking;
use super::cluster::AfterEviction;
use super::known::Listed;
use super::names::REPORTER;
use super::owner;
use super::pressure::Pressure;
use super::record::{Kept, Record};
use crate::host::kill::kill;
use crate::model::NodeEvent;
use crate::sys::causes::causes;
use crate::sys::fault::{self, Point};
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::watcher::DefaultBackoff;
use kube::{Api, Client};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// No answer within this is a failure, to be tried again.
const PATIENCE: Duration = Duration::from_secs(10);
/// A status that was put back may be on its way to be ours again (measured: 90 ms).
const RELAPSE: Duration = Duration::from_millis(500);
/// A kubelet that has started a container again and not told so yet puts the status back after all; it tells within its ten seconds
/// (`syncPeriod`, `pkg/kubelet/status/status_manager.go`).
const SETTLED: Duration = Duration::from_secs(11);
/// What is still to be written when the process is told to stop.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// Longest note of an event that the API takes, in bytes.
const NOTE: usize = 1024;

#[derive(Debug)]
pub(super) enum Report {
    /// Is killed, and to be put on record.
    Evicted(Record),
    /// Is to be asked for.
    Ask(Record),
    Refused(Record),
    Node(NodeEvent),
}

/// What each report needs.
#[derive(Clone)]
pub(super) struct Desk {
    client: Client,
    node: String,
    pub(super) listed: watch::Receiver<Arc<Listed>>,
    pub(super) kept: Kept,
    after: AfterEviction,
    pub(super) asking: Asking,
    recorder: Recorder,
    /// Where the cgroups of pods are that are refused too late.
    pressure: Option<Pressure>,
}

/// How far a record is.
#[derive(Debug, PartialEq, Eq)]
enum Written {
    Yes,
    /// The pod is gone, or another one has its name: nothing is left to be told.
    Needless,
}

impl Desk {
    pub(super) fn new(
        client: Client,
        node: String,
        listed: watch::Receiver<Arc<Listed>>,
        kept: Kept,
        after: AfterEviction,
        asking: Asking,
        pressure: Option<Pressure>,
    ) -> Self {
        let reporter = Reporter {
            controller: REPORTER.to_owned(),
            instance: Some(node.clone()),
        };
        Self {
            recorder: Recorder::new(client.clone(), reporter),
            client,
            node,
            listed,
            kept,
            after,
            asking,
            pressure,
        }
    }

    /// Until nobody can send any more. What an earlier process has begun comes first.
    pub(super) async fn serve(
        self,
        begun: Vec<Record>,
        mut reports: mpsc::UnboundedReceiver<Report>,
    ) {
        let mut works = JoinSet::new();
        let mut settling = JoinSet::new();
        for record in begun {
            if record.refused {
                works.spawn(self.clone().refuse(record));
                continue;
            }
            tracing::info!(
                record = record.id,
                pod = record.name,
                "an eviction that an earlier process began is written to its end"
            );
            self.begin(&mut works, record, true);
        }
        loop {
            tokio::select! {
                report = reports.recv() => match report {
                    Some(Report::Evicted(record) | Report::Ask(record)) => {
                        self.begin(&mut works, record, false);
                    }
                    Some(Report::Refused(record)) => {
                        works.spawn(self.clone().refuse(record));
                    }
                    Some(Report::Node(event)) => {
                        let told = self.clone().tell_node(event);
                        works.spawn(async { told.await; None });
                    }
                    None => break,
                },
                Some(ended) = works.join_next() => {
                    if let Ok(Some((record, round))) = ended {
                        settling.spawn(self.clone().put_back(record, round));
                    }
                }
                Some(relapsed) = settling.join_next() => {
                    if let Ok(Some((record, round))) = relapsed {
                        works.spawn(self.clone().see_through(record, round));
                    }
                }
            }
        }
        // What is not done by then is in the files.
        let _ = timeout(LAST_WORDS, async {
            while works.join_next().await.is_some() {}
        })
        .await;
    }

    /// `left`: by an earlier process.
    fn begin(&self, works: &mut JoinSet<Option<(Record, u32)>>, record: Record, left: bool) {
        let desk = self.clone();
        match record.ask {
            None => works.spawn(desk.see_through(record, 0)),
            Some(_) if left => works.spawn(async {
                desk.follow(record).await;
                None
            }),
            Some(_) => works.spawn(async {
                desk.ask(record).await;
                None
            }),
        };
    }

    /// `round`: how often it was written before. Returns what was torn down and stays as an object, with the next round.
    async fn see_through(mut self, record: Record, mut round: u32) -> Option<(Record, u32)> {
        for point in [Point::KilledNotRecorded, Point::KeptNotRecorded] {
            fault::reach(point);
        }
        if let Err(error) = self.kept.put(&record) {
            tracing::warn!(
                record = record.id,
                "a restart will not know of this record: {error}"
            );
        }
        for point in [
            Point::RecordedNotKilled,
            Point::Frozen,
            Point::RecordedNotKept,
            Point::NotPatched,
        ] {
            fault::reach(point);
        }
        let mut stays = false;
        while self.write(&record, round).await == Written::Yes {
            fault::reach(Point::Patched);
            if round == 0 {
                self.tell_pod(&record).await;
            }
            fault::reach(Point::TeardownAwaited);
            round += 1;
            if self.is_torn_down(&record).await {
                stays = self.after == AfterEviction::Keep;
                if !stays {
                    fault::reach(Point::NotDeleted);
                    self.delete(&record).await;
                    fault::reach(Point::Deleted);
                }
                break;
            }
            warn_put_back(&record);
        }
        for point in [Point::VolumesAwaited, Point::RecordNotRemoved] {
            fault::reach(point);
        }
        self.kept.remove(&record);
        for point in [Point::RecordRemoved, Point::VictimNotRemoved] {
            fault::reach(point);
        }
        stays.then_some((record, round))
    }

    /// Each moment counts: the kubelet is about to make the sandbox, and its first status may have crossed ours. Nothing is settled
    /// afterwards.
    async fn refuse(self, record: Record) -> Option<(Record, u32)> {
        if let Err(error) = self.kept.put(&record) {
            tracing::warn!(
                record = record.id,
                "a restart will not know of this refusal: {error}"
            );
        }
        let mut round = 0;
        while self.write(&record, round).await == Written::Yes {
            let finishing = async {
                self.end_if_started(&record).await;
                if round == 0 {
                    self.tell_pod(&record).await;
                }
            };
            let watching = self.clone().put_back(record.clone(), round);
            let ((), put_back) = tokio::join!(finishing, watching);
            if put_back.is_none() {
                break;
            }
            round += 1;
        }
        self.kept.remove(&record);
        None
    }

    /// Returns the record if the status is another one again within the time in which the kubelet may do that.
    async fn put_back(mut self, record: Record, round: u32) -> Option<(Record, u32)> {
        let watching = async {
            loop {
                let listed = Arc::clone(&self.listed.borrow_and_update());
                let known = listed.get(&record.uid)?;
                if known.record.as_deref().is_some_and(|by| record.wrote(by)) && !known.has_ended {
                    return Some(());
                }
                self.listed.changed().await.ok()?;
            }
        };
        timeout(SETTLED, watching).await.ok()??;
        warn_put_back(&record);
        Some((record, round))
    }

    async fn write(&self, record: &Record, round: u32) -> Written {
        let patch = Patch::Strategic(record.patch(round));
        let pending = if record.refused {
            "the pod is not refused yet"
        } else {
            "the eviction is not on record yet"
        };
        let parameters = PatchParams::default();
        // Gone; or its uid is another one, which is immutable (measured with Kubernetes 1.36).
        let needless = [404, 422];
        self.insist(record, pending, needless, |pods| {
            let (patch, parameters) = (&patch, &parameters);
            async move {
                let sent = pods.patch_status(&record.name, parameters, patch);
                sent.await.map(drop)
            }
        })
        .await
    }

    /// A refusal comes before the sandbox, unless the API server or we were slow.
    async fn end_if_started(&self, record: &Record) {
        let Some(pressure) = self.pressure.clone() else {
            return;
        };
        let uid = record.uid.clone();
        let killing = tokio::task::spawn_blocking(move || {
            let group = owner::group(&pressure.root, &uid)?;
            kill(&group, &pressure.hierarchy).ok()
        });
        // Killing what is on its way out anyway may fail.
        if let Ok(Some(killed)) = killing.await
            && killed.count > 0
        {
            tracing::warn!(
                pod = record.name,
                namespace = record.namespace,
                processes = killed.count,
                "the refused pod had started already: killed"
            );
        }
    }

    /// Only this very pod: what has its name by now is another one.
    async fn delete(&self, record: &Record) {
        let parameters = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(record.uid.clone()),
                ..Preconditions::default()
            }),
            ..DeleteParams::default()
        };
        // Gone; or its uid is another one.
        let needless = [404, 409];
        self.insist(
            record,
            "the evicted pod is not deleted yet",
            needless,
            |pods| {
                let parameters = &parameters;
                async move {
                    let sent = pods.delete(&record.name, parameters);
                    sent.await.map(drop)
                }
            },
        )
        .await;
    }

    /// Tries until the API server has answered. `pending`: what is so as long as it has not. `needless`: answers by which there is
    /// nothing left to be done.
    async fn insist<F: Future<Output = kube::Result<()>>>(
        &self,
        record: &Record,
        pending: &str,
        needless: [u16; 2],
        send: impl Fn(Api<Pod>) -> F,
    ) -> Written {
        let mut delays = DefaultBackoff::default();
        let mut has_failed = false;
        loop {
            let sent = send(Api::namespaced(self.client.clone(), &record.namespace));
            let error = match timeout(PATIENCE, sent).await {
                Ok(Ok(())) => return Written::Yes,
                Ok(Err(kube::Error::Api(status))) if needless.contains(&status.code) => {
                    return Written::Needless;
                }
                Ok(Err(error)) => causes(&error),
                Err(_) => format!("no answer within {} s", PATIENCE.as_secs()),
            };
            if !std::mem::replace(&mut has_failed, true) {
                tracing::warn!(
                    record = record.id,
                    pod = record.name,
                    namespace = record.namespace,
                    "{pending}, it is tried again: {error}"
                );
            }
            sleep(delays.next().unwrap_or(PATIENCE)).await;
        }
    }

    /// Waits until the kubelet has ended the pod or it is gone; `false`: its status is another one again.
    pub(super) async fn is_torn_down(&mut self, record: &Record) -> bool {
        loop {
            let listed = Arc::clone(&self.listed.borrow_and_update());
            let Some(known) = listed.get(&record.uid) else {
                if listed.is_complete || self.listed.changed().await.is_err() {
                    return true;
                }
                continue;
            };
            if known.is_torn_down() {
                return true;
            }
            let ours = known.record.as_deref().is_some_and(|by| record.wrote(by));
            let was_put_back = ours && !known.has_ended;
            if was_put_back {
                if timeout(RELAPSE, self.listed.changed()).await.is_err() {
                    return false;
                }
            } else if self.listed.changed().await.is_err() {
                return true;
            }
        }
    }

    pub(super) async fn tell_pod(&self, record: &Record) {
        let pod = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: Some(record.namespace.clone()),
            name: Some(record.name.clone()),
            uid: Some(record.uid.clone()),
            ..ObjectReference::default()
        };
        self.publish(&pod, "Evicted", note(record)).await;
    }

    async fn tell_node(self, event: NodeEvent) {
        let node = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(self.node.clone()),
            // As the kubelet does: by this `kubectl describe node` finds it.
            uid: Some(self.node.clone()),
            ..ObjectReference::default()
        };
        self.publish(&node, event.reason, event.message).await;
    }

    async fn publish(&self, about: &ObjectReference, reason: &str, note: String) {
        let event = Event {
            type_: EventType::Warning,
            reason: reason.to_owned(),
            note: Some(note),
            action: "Evicting".to_owned(),
            secondary: None,
        };
        let failure = match timeout(PATIENCE, self.recorder.publish(&event, about)).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => causes(&error),
            Err(_) => format!("no answer within {} s", PATIENCE.as_secs()),
        };
        tracing::warn!(
            about = about.name,
            "the event {reason} could not be written: {failure}"
        );
    }
}

fn warn_put_back(record: &Record) {
    tracing::warn!(
        record = record.id,
        pod = record.name,
        namespace = record.namespace,
        "the pod's status was put back: written again"
    );
}

/// The kubelet's message with the record's id, which stays however long the message is.
fn note(record: &Record) -> String {
    let id = format!(" [record {}]", record.id);
    let message = record.message.trim_end();
    let fits = message.floor_char_boundary(NOTE.saturating_sub(id.len()));
    format!("{}{id}", &message[..fits])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_note_of_an_event_fits_and_always_has_the_records_id() {
        let of = |message: String| {
            let mut record = Record::for_tests();
            record.message = message;
            note(&record)
        };
        assert_eq!(
            of("low on memory. ".to_owned()),
            "low on memory. [record 7-1]"
        );
        let long = of("\u{e9}".repeat(2000));
        assert!(
            long.len() <= NOTE && long.len() > NOTE - 3,
            "{}",
            long.len()
        );
        assert!(long.ends_with("\u{e9} [record 7-1]"), "{long}");
    }
}
