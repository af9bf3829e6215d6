//! Evictions that the API server is asked for (`pods/eviction`, policy/v1): sent, looked up where the answer leaves it open, and followed
//! until the pod is gone. The kubelet ends the pod, and never starts it again: its status is the kubelet's.

use super::answers::{self, Answered, Said};
use super::record::Record;
use super::reports::Desk;
use crate::ports::Refusal;
use crate::sys::causes::causes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::Eviction;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, ObjectMeta, Preconditions};
use kube::Api;
use kube::api::ListParams;
use kube::client::Body;
use kube::runtime::watcher::DefaultBackoff;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

/// No answer within this is none. Admission webhooks have ten seconds each by default.
const PATIENCE: Duration = Duration::from_secs(10);
/// The same where the node's life waits for it.
pub(super) const URGENT: Duration = Duration::from_secs(2);
/// How long a pod may be looked up.
const LOOK: Duration = Duration::from_secs(2);
const AGAIN: Duration = Duration::from_secs(5);

/// An answer, by the id of its record.
pub(super) type AnswerTo = (String, Answered);

/// Where answers go, and whose are still open.
#[derive(Clone)]
pub(super) struct Asking {
    /// Sends each request once: the usual client repeats what was answered 429, many times.
    client: kube::Client,
    answers: mpsc::UnboundedSender<AnswerTo>,
    /// Asked for without an answer: they may be leaving all the same.
    doubtful: Arc<Mutex<Vec<Record>>>,
}

/// What the API shows of a pod.
enum Seen {
    Gone,
    Leaving,
    There,
}

impl Asking {
    pub(super) fn new(client: kube::Client, answers: mpsc::UnboundedSender<AnswerTo>) -> Self {
        Self {
            client,
            answers,
            doubtful: Arc::default(),
        }
    }

    async fn post(&self, record: &Record, grace_secs: u32) -> Result<Said, String> {
        let eviction = Eviction {
            metadata: ObjectMeta {
                name: Some(record.name.clone()),
                namespace: Some(record.namespace.clone()),
                ..ObjectMeta::default()
            },
            delete_options: Some(DeleteOptions {
                grace_period_seconds: Some(grace_secs.into()),
                preconditions: Some(Preconditions {
                    uid: Some(record.uid.clone()),
                    ..Preconditions::default()
                }),
                ..DeleteOptions::default()
            }),
        };
        // kube's own call (5.0) names the options `delete_options`, which the API passes over: no grace, no uid.
        let body = serde_json::to_vec(&eviction).map_err(|e| e.to_string())?;
        let (namespace, name) = (&record.namespace, &record.name);
        let place = format!("/api/v1/namespaces/{namespace}/pods/{name}/eviction");
        let request = http::Request::post(place).header(CONTENT_TYPE, "application/json");
        let request = request.body(Body::from(body)).map_err(|e| e.to_string())?;
        let answer = self.client.send(request).await.map_err(|e| causes(&e))?;
        let (head, body) = answer.into_parts();
        let after = head.headers.get(RETRY_AFTER);
        let after = after.and_then(|after| after.to_str().ok()?.trim().parse().ok());
        let body = body.collect_bytes().await.map_err(|e| causes(&e))?;
        Ok(answers::said(head.status.as_u16(), after, &body))
    }

    /// By a list of one, which is what we have the right to.
    async fn look(&self, record: &Record) -> Result<Seen, String> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &record.namespace);
        let of_this_name = format!("metadata.name={}", record.name);
        let list = ListParams::default().fields(&of_this_name);
        let found = match timeout(LOOK, pods.list(&list)).await {
            Ok(found) => found.map_err(|e| causes(&e))?,
            Err(_) => return Err(format!("no answer within {} s", LOOK.as_secs())),
        };
        let is_it = |pod: &Pod| pod.metadata.uid.as_ref() == Some(&record.uid);
        Ok(match found.items.into_iter().find(is_it) {
            None => Seen::Gone,
            Some(pod) if pod.metadata.deletion_timestamp.is_some() => Seen::Leaving,
            Some(_) => Seen::There,
        })
    }

    fn doubtful(&self) -> Vec<Record> {
        let doubtful = self.doubtful.lock();
        doubtful.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// This very one, and not that the pod was asked for again.
    fn doubts(&self, record: &Record) -> bool {
        self.doubtful().iter().any(|other| other.id == record.id)
    }

    fn doubt(&self, record: &Record) {
        self.trust(record);
        let doubtful = self.doubtful.lock();
        let mut doubtful = doubtful.unwrap_or_else(PoisonError::into_inner);
        doubtful.push(record.clone());
    }

    fn trust(&self, record: &Record) {
        let doubtful = self.doubtful.lock();
        let mut doubtful = doubtful.unwrap_or_else(PoisonError::into_inner);
        doubtful.retain(|other| other.uid != record.uid);
    }

    fn tell(&self, record: &Record, answered: Answered) {
        // The other end lives as long as the loop.
        let _ = self.answers.send((record.id.clone(), answered));
    }
}

impl Desk {
    pub(super) async fn ask(self, record: Record) {
        if let Err(error) = self.kept.put(&record) {
            let record = &record.id;
            tracing::warn!(record, "a restart will not know of this eviction: {error}");
        }
        // Asked for again: that answer counts.
        self.asking.trust(&record);
        let answered = match self.others_in_doubt(&record).await {
            Some(answered) => answered,
            None => self.evict(&record).await,
        };
        self.answered(record, answered).await;
    }

    /// An earlier process has begun it. It is not asked for again: what was right then need not be so now.
    pub(super) async fn follow(self, record: Record) {
        let mut delays = DefaultBackoff::default();
        let answered = loop {
            match self.asking.look(&record).await {
                Ok(Seen::Gone) => break Answered::Gone,
                Ok(Seen::Leaving) => break Answered::Granted,
                Ok(Seen::There) => {
                    break Answered::Refused(Refusal {
                        reason: "the API server had not granted it before the restart".to_owned(),
                        again: Duration::ZERO,
                        is_for_all: false,
                    });
                }
                Err(_) => sleep(delays.next().unwrap_or(AGAIN).min(AGAIN)).await,
            }
        };
        self.answered(record, answered).await;
    }

    async fn evict(&self, record: &Record) -> Answered {
        let Some(ask) = record.ask else {
            return Answered::Granted;
        };
        let asking = &self.asking;
        let patience = if ask.kills { URGENT } else { PATIENCE };
        let sent = timeout(patience, asking.post(record, ask.grace_secs)).await;
        let why = match sent {
            Ok(Ok(Said::Granted)) => return Answered::Granted,
            Ok(Ok(Said::Refused(refusal))) => return Answered::Refused(refusal),
            Ok(Ok(Said::Unclear(words))) => match asking.look(record).await {
                Ok(Seen::There) => return answers::stays(&words),
                Ok(Seen::Gone) => return Answered::Gone,
                Ok(Seen::Leaving) => return Answered::Granted,
                Err(_) => words,
            },
            Ok(Err(error)) => error,
            Err(_) => format!("no answer within {} s", patience.as_secs()),
        };
        let why = format!("the API server cannot be asked: {why}");
        // It may have been heard.
        if !ask.kills {
            match asking.look(record).await {
                Ok(Seen::Gone) => return Answered::Gone,
                Ok(Seen::Leaving) => return Answered::Granted,
                Ok(Seen::There) | Err(_) => {}
            }
        }
        asking.doubt(record);
        Answered::Away(why)
    }

    /// As long as another one may be leaving, nobody is asked for.
    async fn others_in_doubt(&self, record: &Record) -> Option<Answered> {
        for other in self.asking.doubtful() {
            if other.uid == record.uid {
                continue;
            }
            match self.asking.look(&other).await {
                Ok(Seen::Gone | Seen::There) => {
                    self.asking.trust(&other);
                    self.kept.remove(&other);
                }
                Ok(Seen::Leaving) => {
                    let name = &other.name;
                    let why = format!("{name} is leaving: its eviction was granted after all");
                    return Some(Answered::Refused(answers::away(why)));
                }
                Err(error) => {
                    let why = format!("the API server cannot be asked: {error}");
                    return Some(Answered::Away(why));
                }
            }
        }
        None
    }

    async fn answered(mut self, record: Record, answered: Answered) {
        let name = &record.name;
        match &answered {
            Answered::Granted | Answered::Gone => {}
            Answered::Refused(refusal) => {
                self.kept.remove(&record);
                let why = &refusal.reason;
                tracing::warn!(
                    record = record.id,
                    "the eviction of {name} is refused: {why}"
                );
            }
            Answered::Away(why) => {
                tracing::warn!(record = record.id, "the eviction of {name} is open: {why}");
            }
        }
        self.asking.tell(&record, answered.clone());
        match answered {
            Answered::Refused(_) => return,
            Answered::Away(_) => return self.until_certain(&record).await,
            // Whose status we have patched meanwhile has its event.
            Answered::Granted if !self.has_record(&record) => self.tell_pod(&record).await,
            Answered::Granted | Answered::Gone => {}
        }
        while !self.is_torn_down(&record).await {}
        self.kept.remove(&record);
    }

    /// Looks until the server shows whether it was heard after all; if so, until the pod is gone.
    async fn until_certain(&self, record: &Record) {
        let mut is_told = false;
        while self.asking.doubts(record) {
            match self.asking.look(record).await {
                Ok(Seen::Gone | Seen::There) => {
                    self.asking.trust(record);
                    self.kept.remove(record);
                }
                Ok(Seen::Leaving) if !is_told => {
                    is_told = true;
                    if !self.has_record(record) {
                        self.tell_pod(record).await;
                    }
                }
                Ok(Seen::Leaving) | Err(_) => {}
            }
            sleep(AGAIN).await;
        }
    }

    fn has_record(&self, record: &Record) -> bool {
        let listed = Arc::clone(&self.listed.borrow());
        let known = listed.get(&record.uid).and_then(|pod| pod.record.clone());
        known.is_some_and(|by| record.wrote(&by))
    }
}
