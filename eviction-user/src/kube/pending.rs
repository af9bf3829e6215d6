//! Who is to be asked for, who has been, and what has come of it, as the loop sees it: it never waits for an answer.

use super::answers::{self, Answered};
use super::asks::{AnswerTo, URGENT};
use super::cluster::HardPolicy;
use super::record::{Ask, Record};
use super::reports::Report;
use crate::host::Answer;
use crate::model::{Eviction, Timestamp, Uid};
use crate::sys::clock;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::mpsc;

pub(super) struct Asks {
    reports: mpsc::UnboundedSender<Report>,
    answers: mpsc::UnboundedReceiver<AnswerTo>,
    hard: HardPolicy,
    /// By uid.
    asked: BTreeMap<String, Asked>,
}

struct Asked {
    record: Record,
    answered: Option<Answered>,
    /// The node's life waits for the answer.
    urgent_since: Option<Timestamp>,
}

impl Asked {
    fn new(record: Record) -> Self {
        let kills = record.ask.is_some_and(|ask| ask.kills);
        Self {
            record,
            answered: None,
            urgent_since: kills.then(clock::now),
        }
    }
}

impl Asks {
    /// `left`: what an earlier process has begun.
    pub(super) fn new(
        reports: mpsc::UnboundedSender<Report>,
        answers: mpsc::UnboundedReceiver<AnswerTo>,
        hard: HardPolicy,
        left: &BTreeMap<String, Record>,
    ) -> Self {
        let asked = left.iter().filter(|(_, record)| record.ask.is_some());
        let asked = asked.map(|(uid, record)| (uid.clone(), Asked::new(record.clone())));
        Self {
            reports,
            answers,
            hard,
            asked: asked.collect(),
        }
    }

    /// `is_there`: whether a pod is still known. `None`: it is to be killed without.
    pub(super) fn begin(
        &mut self,
        id: u64,
        eviction: &Eviction,
        is_there: impl Fn(&str) -> bool,
    ) -> Option<Duration> {
        self.hear();
        let pending = |asked: &Asked| asked.answered.is_none();
        self.asked
            .retain(|uid, asked| pending(asked) || is_there(uid));
        let ask = how(self.hard, eviction);
        let record = Record::of(id, eviction, ask);
        match ask {
            None => self.report(Report::Evicted(record)),
            Some(_) => {
                let asked = Asked::new(record.clone());
                self.asked.insert(record.uid.clone(), asked);
                self.report(Report::Ask(record));
            }
        }
        ask.map(Ask::time_to_leave)
    }

    pub(super) fn answer(&mut self, uid: &Uid) -> Answer {
        self.hear();
        let Some(asked) = self.asked.get(uid.as_str()) else {
            return Answer::Granted;
        };
        let is_urgent = asked.urgent_since.is_some();
        match asked.answered.clone() {
            None => {
                let waited = asked.urgent_since.map(clock::elapsed_since);
                // A moment more: its own answer says why.
                match waited.filter(|waited| *waited > URGENT + Duration::from_millis(200)) {
                    Some(_) => Answer::Bypassed(format!("none within {} s", URGENT.as_secs())),
                    None => Answer::None,
                }
            }
            Some(Answered::Granted | Answered::Gone) => Answer::Granted,
            Some(Answered::Away(why)) if is_urgent => Answer::Bypassed(why),
            Some(Answered::Away(why)) => self.refused(uid, answers::away(why)),
            Some(Answered::Refused(refusal)) => self.refused(uid, refusal),
        }
    }

    pub(super) fn may_go_unanswered(&mut self, uid: &Uid) -> bool {
        let asked = self.asked.get_mut(uid.as_str());
        if let (HardPolicy::KillApi, Some(asked)) = (self.hard, asked) {
            asked.urgent_since.get_or_insert_with(clock::now);
        }
        self.hard == HardPolicy::Kill
    }

    /// Who is killed without having been granted is started again by its kubelet, unless its status says that it has ended.
    pub(super) fn ending(&mut self, uid: &Uid) {
        self.hear();
        let is_open = |a: &&Asked| !matches!(a.answered, Some(Answered::Granted | Answered::Gone));
        if let Some(asked) = self.asked.get(uid.as_str()).filter(is_open) {
            let mut record = asked.record.clone();
            record.ask = None;
            self.report(Report::Evicted(record));
            self.asked.remove(uid.as_str());
        }
    }

    fn refused(&mut self, uid: &Uid, refusal: crate::ports::Refusal) -> Answer {
        self.asked.remove(uid.as_str());
        Answer::Refused(refusal)
    }

    fn hear(&mut self) {
        while let Ok((id, answered)) = self.answers.try_recv() {
            let asked = self.asked.values_mut().find(|asked| asked.record.id == id);
            if let Some(asked) = asked {
                asked.answered = Some(answered);
            }
        }
    }

    fn report(&self, report: Report) {
        // The other end lives as long as the process.
        let _ = self.reports.send(report);
    }
}

fn how(hard: HardPolicy, eviction: &Eviction) -> Option<Ask> {
    let seconds = |grace: crate::model::Span| grace.as_nanos() / 1_000_000_000;
    match (eviction.time_to_leave().map(seconds), hard) {
        (Some(grace), _) => Some(Ask {
            grace_secs: u32::try_from(grace).unwrap_or(u32::MAX).max(1),
            kills: false,
        }),
        (None, HardPolicy::Kill) => None,
        // 0 would delete the object at once.
        (None, HardPolicy::Api | HardPolicy::KillApi) => Some(Ask {
            grace_secs: 1,
            kills: hard == HardPolicy::KillApi,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::Refusal;

    /// With one pod that was asked for.
    fn asks(hard: HardPolicy, kills: bool) -> Fixture {
        let mut record = Record::for_tests();
        record.ask = Some(Ask {
            grace_secs: 1,
            kills,
        });
        let (reports, inbox) = mpsc::unbounded_channel();
        let (answers, heard) = mpsc::unbounded_channel();
        let left = [(record.uid.clone(), record.clone())].into();
        Fixture {
            uid: Uid::new(record.uid.as_str()),
            asks: Asks::new(reports, heard, hard, &left),
            record,
            inbox,
            answers,
        }
    }

    struct Fixture {
        asks: Asks,
        uid: Uid,
        record: Record,
        inbox: mpsc::UnboundedReceiver<Report>,
        answers: mpsc::UnboundedSender<AnswerTo>,
    }

    impl Fixture {
        fn answer(&mut self, answered: Answered) -> Answer {
            let id = self.record.id.clone();
            self.answers.send((id, answered)).unwrap();
            self.asks.answer(&self.uid)
        }

        fn patches(&mut self) -> bool {
            matches!(self.inbox.try_recv(), Ok(Report::Evicted(record)) if record.ask.is_none())
        }
    }

    #[test]
    fn an_answer_to_another_request_is_none_and_a_refusal_is_told_once() {
        let mut of = asks(HardPolicy::Kill, false);
        assert_eq!(of.asks.answer(&of.uid), Answer::None);
        let other = ("other".to_owned(), Answered::Granted);
        of.answers.send(other).unwrap();
        assert_eq!(of.asks.answer(&of.uid), Answer::None);
        let refusal = Refusal {
            reason: "no".to_owned(),
            again: Duration::from_secs(10),
            is_for_all: false,
        };
        let told = of.answer(Answered::Refused(refusal.clone()));
        assert_eq!(told, Answer::Refused(refusal));
        assert_eq!(of.asks.answer(&of.uid), Answer::Granted, "nothing is open");
    }

    #[test]
    fn whoever_is_killed_without_having_been_granted_is_put_on_record_and_no_other_one() {
        for (answered, patched) in [(None, true), (Some(Answered::Granted), false)] {
            let mut of = asks(HardPolicy::Kill, false);
            if let Some(answered) = answered {
                assert_eq!(of.answer(answered), Answer::Granted);
            }
            assert!(of.asks.may_go_unanswered(&of.uid));
            of.asks.ending(&of.uid);
            assert_eq!(of.patches(), patched);
        }
    }

    #[test]
    fn a_server_that_is_away_lets_nobody_go_but_where_the_node_is_to_live_on() {
        let away = || Answered::Away("refused".to_owned());
        for (hard, kills, urgent) in [
            (HardPolicy::Kill, false, false),
            (HardPolicy::Api, false, true),
            (HardPolicy::KillApi, false, false),
        ] {
            let mut of = asks(hard, kills);
            if urgent {
                assert!(!of.asks.may_go_unanswered(&of.uid));
            }
            let Answer::Refused(refusal) = of.answer(away()) else {
                panic!("{hard:?}");
            };
            assert!(refusal.is_for_all && !of.patches());
        }
        let mut of = asks(HardPolicy::KillApi, true);
        assert_eq!(of.answer(away()), Answer::Bypassed("refused".to_owned()));
        let mut of = asks(HardPolicy::KillApi, false);
        assert!(!of.asks.may_go_unanswered(&of.uid));
        assert_eq!(of.answer(away()), Answer::Bypassed("refused".to_owned()));
        of.asks.ending(&of.uid);
        assert!(of.patches());
    }
}
