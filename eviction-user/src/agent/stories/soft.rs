//! Victims of soft thresholds: asked, waited for, and killed when their time is over.

use super::{Shared, event, hard, settings};
use crate::model::Limit;
use crate::model::{Quantity, Signal, Span, Threshold};
use crate::policy::EngineConfig;
use crate::ports::{Entry, Refusal, Removal};
use crate::record::victims::{self, VictimKeeper};
use std::path::Path;
use std::time::Duration;

/// Hard below 100 MiB; soft below 300 MiB at once, with some seconds to leave.
fn config(grace_secs: i64) -> EngineConfig {
    let limit = Limit::Quantity("300Mi".parse::<Quantity>().unwrap());
    let soft = Threshold {
        grace: Span::from_millis(1),
        ..Threshold::hard(Signal::MemoryAvailable, limit)
    };
    let mut config = EngineConfig::with_thresholds(vec![hard(Signal::MemoryAvailable), soft]);
    config.settings.max_pod_grace_secs = grace_secs;
    config
}

fn asked(node: &Shared) -> usize {
    let node = node.0.borrow();
    let asked = node.entries.iter();
    asked.filter(|e| matches!(e, Entry::Asked { .. })).count()
}

#[tokio::test]
async fn a_victim_that_leaves_in_time_is_not_killed() {
    let node = Shared::new(&[("a", 100), ("hog", 650)]);
    let gone = node.until("nobody left", |node| !node.used.contains_key("hog"));
    node.run_with(config(600), settings(), gone).await;
    assert_eq!(node.0.borrow().asked, ["hog"]);
    assert!(node.0.borrow().killed.is_empty());
    assert_eq!(asked(&node), 1);
}

#[tokio::test]
async fn a_victim_that_ignores_it_is_killed_when_its_grace_is_over() {
    let node = Shared::new(&[("hog", 750)]);
    node.0.borrow_mut().stubborn = vec!["hog"];
    let killed = node.until("nobody was killed", |node| !node.killed.is_empty());
    node.run_with(config(1), settings(), killed).await;
    let node = node.0.borrow();
    assert_eq!(
        (node.asked.as_slice(), node.killed.as_slice()),
        (["hog".to_owned()].as_slice(), ["hog".to_owned()].as_slice())
    );
    let told: Vec<_> = node
        .entries
        .iter()
        .filter_map(|entry| match entry {
            Entry::Asked { report, grace, .. } => Some((report.done, *grace)),
            Entry::Kill { report, .. } => Some((report.done, Duration::ZERO)),
            _ => None,
        })
        .collect();
    let [(asked, grace), (killed, _)] = told[..] else {
        panic!("{told:?}")
    };
    assert!(
        crate::sys::clock::between(asked, killed) >= grace,
        "not before"
    );
}

#[tokio::test]
async fn a_hard_threshold_met_meanwhile_kills_the_victim_at_once_and_nobody_else() {
    let node = Shared::new(&[("a", 100), ("hog", 650)]);
    node.0.borrow_mut().stubborn = vec!["hog"];
    let worse = async {
        node.until("nobody was asked", |node| !node.asked.is_empty())
            .await;
        assert!(node.0.borrow().killed.is_empty(), "it has ten minutes");
        node.0.borrow_mut().used.insert("hog", 850);
        node.0.borrow_mut().event = Some(event());
        node.until("nobody was killed", |node| !node.killed.is_empty())
            .await;
        node.until("it is not gone", |node| !node.used.contains_key("hog"))
            .await;
    };
    node.run_with(config(600), settings(), worse).await;
    assert_eq!(node.0.borrow().killed, ["hog"]);
    assert_eq!(asked(&node), 1);
}

/// User case 32: the grace is a part of the removal.
#[tokio::test]
async fn case_32_no_second_victim_is_asked_while_the_first_one_still_has_its_grace() {
    let node = Shared::new(&[("a", 300), ("hog", 450)]);
    node.0.borrow_mut().stubborn = vec!["hog"];
    let looks = async {
        node.until("nobody was asked", |node| !node.asked.is_empty())
            .await;
        for _ in 0..3 {
            let before = node.0.borrow().looks;
            node.0.borrow_mut().event = Some(event());
            node.until("no look", |node| node.looks > before).await;
        }
    };
    let often = super::Settings {
        interval: Duration::from_millis(5),
        ..settings()
    };
    node.run_with(config(600), often, looks).await;
    assert!(node.0.borrow().snapshots >= 2, "cycles went on");
    assert_eq!(node.0.borrow().asked, ["hog"]);
}

/// A process that goes on where the last one was, with ten minutes of grace.
async fn kept(node: &Shared, folder: &Path, stop: impl Future<Output = ()>) {
    let left = victims::read(folder);
    let (keeper, thread) = VictimKeeper::start(folder).unwrap();
    let agent = node.agent(config(600), settings()).kept_by(keeper, left);
    node.go(agent, stop).await;
    thread.join().unwrap();
}

/// User case 2: evictions forgotten on restart.
#[tokio::test]
async fn case_2_a_restart_goes_on_with_the_victims_of_the_last_process_and_takes_no_second_one() {
    let folder = tempfile::tempdir().unwrap();
    let node = Shared::new(&[("a", 300), ("hog", 450)]);
    node.0.borrow_mut().stubborn = vec!["hog"];
    let asked = node.until("nobody was asked", |node| !node.asked.is_empty());
    kept(&node, folder.path(), asked).await;
    let left = victims::read(folder.path());
    assert!(left.len() == 1 && left[0].name == "hog", "{left:?}");

    // Under the same pressure, and with the hog now smaller than the other.
    node.0.borrow_mut().used = [("a", 700), ("hog", 50)].into();
    let cycles = async {
        for _ in 0..3 {
            let before = node.0.borrow().looks;
            node.0.borrow_mut().event = Some(event());
            node.until("no look", |node| node.looks > before).await;
        }
        node.0.borrow_mut().stubborn.clear();
        node.until("it is not gone", |node| !node.used.contains_key("hog"))
            .await;
    };
    kept(&node, folder.path(), cycles).await;
    assert_eq!(node.0.borrow().asked[0], "hog");
    let mut entries = node.0.borrow().entries.clone().into_iter();
    let taken_over = entries.find_map(|entry| match entry {
        Entry::TakenOver { uid, grace, .. } => Some((uid, grace)),
        _ => None,
    });
    let (uid, grace) = taken_over.unwrap();
    assert_eq!(uid.as_str(), "hog");
    assert!(grace.is_some_and(|grace| grace <= Duration::from_secs(600)));
    let next = entries.find(|e| matches!(e, Entry::Gone { .. } | Entry::Decision { .. }));
    assert!(matches!(next, Some(Entry::Gone { .. })), "{next:?}");
}

fn refusal(again: Duration, is_for_all: bool) -> Removal {
    Removal::Refused(Refusal {
        reason: "its budget is exhausted".to_owned(),
        again,
        is_for_all,
    })
}

fn asking(used: &[(&'static str, u64)]) -> Shared {
    let node = Shared::new(used);
    node.0.borrow_mut().asks = true;
    node
}

fn refused(node: &super::Node) -> Vec<String> {
    let entries = node.entries.iter();
    let refused = entries.filter_map(|entry| match entry {
        Entry::Refused { uid, .. } => Some(uid.as_str().to_owned()),
        _ => None,
    });
    refused.collect()
}

/// User case 49.
#[tokio::test]
async fn case_49_whose_end_is_refused_stays_and_the_next_one_is_asked_for() {
    let node = asking(&[("a", 300), ("hog", 450)]);
    node.0.borrow_mut().answers = [("hog", refusal(Duration::from_secs(600), false))].into();
    let gone = node.until("nobody left", |node| !node.used.contains_key("a"));
    node.run_with(config(600), settings(), gone).await;
    let node = node.0.borrow();
    assert_eq!(node.asked, ["hog", "a"]);
    assert_eq!(refused(&node), ["hog"]);
    assert!(node.killed.is_empty() && node.used.contains_key("hog"));
}

#[tokio::test]
async fn while_nobody_can_be_asked_for_no_other_one_is_chosen_and_the_same_one_is_asked_for_again()
{
    let node = asking(&[("a", 300), ("hog", 450)]);
    node.0.borrow_mut().answers = [("hog", refusal(Duration::from_millis(300), true))].into();
    let gone = async {
        node.until("no refusal", |node| !refused(node).is_empty())
            .await;
        node.0.borrow_mut().event = Some(event());
        node.until("nobody left", |node| !node.used.contains_key("hog"))
            .await;
    };
    node.run_with(config(600), settings(), gone).await;
    let node = node.0.borrow();
    assert_eq!(node.asked, ["hog", "hog"]);
    assert_eq!(refused(&node), ["hog"]);
    assert!(node.killed.is_empty());
}

#[tokio::test]
async fn without_an_answer_nothing_is_killed_when_the_grace_would_be_over_and_looks_go_on() {
    let node = asking(&[("a", 300), ("hog", 450)]);
    node.0.borrow_mut().answers = [("hog", Removal::Unanswered)].into();
    let waits = async {
        node.until("nobody was asked for", |node| !node.asked.is_empty())
            .await;
        let looks = node.0.borrow().looks;
        tokio::time::sleep(Duration::from_millis(1200)).await;
        node.0.borrow_mut().event = Some(event());
        node.until("no look", |node| node.looks > looks).await;
        assert!(node.0.borrow().killed.is_empty());
        node.0.borrow_mut().answers.clear();
        node.until("it stays", |node| !node.used.contains_key("hog"))
            .await;
    };
    node.run_with(config(1), settings(), waits).await;
    assert_eq!(node.0.borrow().asked, ["hog"]);
    assert!(node.0.borrow().killed.is_empty());
}

#[tokio::test]
async fn a_hard_threshold_met_before_the_answer_kills_at_once_or_as_soon_as_it_is_granted() {
    for may in [true, false] {
        let node = asking(&[("a", 100), ("hog", 650)]);
        node.0.borrow_mut().may_go_unanswered = may;
        node.0.borrow_mut().answers = [("hog", Removal::Unanswered)].into();
        node.0.borrow_mut().stubborn = vec!["hog"];
        let worse = async {
            node.until("nobody was asked for", |node| !node.asked.is_empty())
                .await;
            node.0.borrow_mut().used.insert("hog", 850);
            node.0.borrow_mut().event = Some(event());
            node.until("it is not urgent", |node| !node.urgent.is_empty())
                .await;
            assert_eq!(node.0.borrow().killed.is_empty(), !may);
            node.0.borrow_mut().answers.clear();
            node.until("nobody was killed", |node| !node.killed.is_empty())
                .await;
            node.until("it is not gone", |node| !node.used.contains_key("hog"))
                .await;
        };
        node.run_with(config(600), settings(), worse).await;
        assert_eq!(node.0.borrow().killed, ["hog"]);
        assert_eq!(node.0.borrow().asked, ["hog"]);
    }
}

/// User case 46.
#[tokio::test]
async fn case_46_a_kill_waits_for_the_budgets_yes_and_one_without_an_answer_is_told() {
    for bypassed in [false, true] {
        let node = asking(&[("a", 100), ("hog", 850)]);
        node.0.borrow_mut().stubborn = vec!["hog"];
        node.0.borrow_mut().answers = [("hog", Removal::Unanswered)].into();
        let killed = async {
            node.until("nobody was asked for", |node| !node.asked.is_empty())
                .await;
            assert!(node.0.borrow().killed.is_empty());
            let answer = match bypassed {
                true => Removal::Bypassed("no answer".to_owned()),
                false => Removal::Running,
            };
            node.0.borrow_mut().answers.insert("hog", answer);
            node.until("it is not gone", |node| !node.used.contains_key("hog"))
                .await;
        };
        node.run_with(config(600), settings(), killed).await;
        let node = node.0.borrow();
        assert_eq!(node.killed, ["hog"]);
        let told = node.entries.iter();
        let told = told.filter(|entry| matches!(entry, Entry::Bypassed { .. }));
        assert_eq!(told.count(), usize::from(bypassed));
    }
}

/// User case 49.
#[tokio::test]
async fn case_49_where_all_are_refused_each_is_asked_for_once() {
    let node = asking(&[("a", 300), ("hog", 450)]);
    let refusal = || refusal(Duration::from_secs(600), false);
    node.0.borrow_mut().answers = [("a", refusal()), ("hog", refusal())].into();
    let looks = async {
        node.until("nobody was chosen", |node| refused(node).len() == 2)
            .await;
        for _ in 0..3 {
            let before = node.0.borrow().looks;
            node.0.borrow_mut().event = Some(event());
            node.until("no look", |node| node.looks > before).await;
        }
    };
    let often = super::Settings {
        interval: Duration::from_millis(5),
        ..settings()
    };
    node.run_with(config(600), often, looks).await;
    assert_eq!(node.0.borrow().asked, ["hog", "a"]);
}
