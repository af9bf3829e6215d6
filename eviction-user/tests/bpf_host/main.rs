//! The programs in a real kernel: each rung is attached alone, a load runs in a cgroup of its own, and exactly one event must
//! come per arming, with the right cgroup. Also runs in guests: built statically, it needs nothing but itself.

mod bytes;
mod hooks;
mod inodes;
mod load;
mod log;
mod loss;
mod memory;
mod observed;
mod scratch;
mod tasks;

use std::process::ExitCode;

use eviction_user::bpf::{
    AttachOptions, Attached, Events, Facts, FactsOptions, Family, Rung, plan,
};
use libtest_mimic::{Arguments, Failed, Trial};

/// What a scenario comes to besides success.
pub(crate) enum Verdict {
    Passed,
    /// The reason; printed, so that no skip is silent.
    Skipped(String),
}

/// Where to write the facts, to record a kernel for the plan's table test.
const RECORD: &str = "EVICTION_TEST_RECORD_FACTS";

type Outcome = Result<Verdict, Failed>;
type Scenario = fn(&Facts) -> Outcome;

fn main() -> ExitCode {
    if let Some(code) = load::run_if_child() {
        return code;
    }
    let arguments = Arguments::from_args();
    let facts = Facts::gather(&FactsOptions::default());
    let mut trials = vec![trial(
        "facts::of_this_kernel",
        facts.clone(),
        facts_are_complete,
    )];
    for rung in [
        Rung::FentryCharge,
        Rung::KprobeCharge,
        Rung::PerfFaults,
        Rung::TracePageAlloc,
    ] {
        for levels in [true, false] {
            let name = format!(
                "memory::{rung}::{}",
                if levels { "level" } else { "credit" }
            );
            trials.push(trial(&name, facts.clone(), move |facts| {
                memory::one_event_per_arming(facts, rung, levels)
            }));
        }
    }
    trials.push(trial(
        "memory::perf/page-faults::page_cache",
        facts.clone(),
        memory::reading_and_writing_files_counts,
    ));
    trials.push(trial(
        "memory::perf/page-faults::far_away",
        facts.clone(),
        memory::faults_are_sampled_while_far_away,
    ));
    trials.push(trial(
        "memory::all::plan",
        facts.clone(),
        memory::the_plan_attaches_something,
    ));
    trials.push(trial(
        "hooks::twins",
        facts.clone(),
        hooks::a_twin_is_taken_where_its_types_are_known,
    ));
    trials.push(trial(
        "hooks::suspended",
        facts.clone(),
        hooks::nothing_is_seen_while_suspended,
    ));
    trials.push(trial(
        "inodes::raw_tp/ext4_allocate_inode::turns",
        facts.clone(),
        inodes::each_cgroup_has_its_own_whoever_takes_turns,
    ));
    for rung in [
        Rung::FentryExt4Bytes,
        Rung::KprobeExt4Bytes,
        Rung::TraceExt4Bytes,
    ] {
        let name = format!("bytes::{rung}");
        trials.push(trial(&name, facts.clone(), move |facts| {
            bytes::kept_while_the_line_is_far_and_spent_when_it_is_near(facts, rung)
        }));
    }
    for rung in [Rung::FentryInode, Rung::KprobeInode, Rung::TraceExt4] {
        let name = format!("inodes::{rung}");
        trials.push(trial(&name, facts.clone(), move |facts| {
            inodes::one_event_per_arming(facts, rung)
        }));
    }
    let told: [(&str, Scenario); 8] = [
        (
            "tasks::raw_tp/task_newtask",
            tasks::a_storm_is_one_event_per_arming,
        ),
        (
            "observed::case_13_an_oom_victim_is_told_with_its_cgroup",
            observed::an_oom_victim_is_told_with_its_cgroup,
        ),
        (
            "observed::stalls_are_summed_for_the_cgroup_that_waits",
            observed::stalls_are_summed_for_the_cgroup_that_waits,
        ),
        (
            "observed::case_69_cgroups_that_come_and_go_are_told",
            observed::cgroups_that_come_and_go_are_told,
        ),
        (
            "loss::case_68_a_full_ring_loses_no_crossing",
            loss::a_full_ring_loses_no_crossing,
        ),
        (
            "loss::case_68_counters_that_had_to_make_room_are_counted",
            loss::counters_that_had_to_make_room_are_counted,
        ),
        (
            "loss::case_69_a_cgroup_made_again_under_its_name_counts_from_nothing",
            loss::a_cgroup_made_again_under_its_name_counts_from_nothing,
        ),
        (
            "loss::case_69_cgroups_that_were_lost_are_found_by_a_walk",
            loss::cgroups_that_were_lost_are_found_by_a_walk,
        ),
    ];
    for (name, run) in told {
        trials.push(trial(name, facts.clone(), run));
    }
    trials.push(trial(
        "log::the_programs_speak_when_asked_to",
        facts,
        log::the_programs_speak,
    ));
    let arguments = Arguments {
        test_threads: Some(1),
        ..arguments
    };
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trial(name: &str, facts: Facts, run: impl FnOnce(&Facts) -> Outcome + Send + 'static) -> Trial {
    let shown = name.to_owned();
    Trial::test(name, move || {
        if let Verdict::Skipped(reason) = run(&facts)? {
            // As libtest shows what a passed test has said, so that whoever counts skips finds it.
            println!("\n---- {shown} stdout ----\nskipped: {reason}\n\nsuccesses:");
        }
        Ok(())
    })
}

/// Where there is BTF, everything that the programs can use has to be found in it.
fn facts_are_complete(facts: &Facts) -> Outcome {
    if let Some(path) = std::env::var_os(RECORD) {
        std::fs::write(path, serde_json::to_string_pretty(facts)?)?;
    }
    if let Some(error) = &facts.btf_error {
        return Ok(Verdict::Skipped(error.clone()));
    }
    let offsets = &facts.offsets;
    let complete = offsets.memcg.is_some()
        && offsets.task.is_some()
        && offsets.inode.is_some()
        && offsets.folio.is_some()
        && offsets.victim.is_some()
        && offsets.cgroup.is_some();
    if !complete || offsets.inode_arg.is_none() || facts.cpus == 0 || facts.kernel.is_empty() {
        return Err(format!("{facts:?}").into());
    }
    Ok(Verdict::Passed)
}

/// Attaches only these rungs; the reason why not, if the first does not hold.
pub(crate) fn attach(facts: &Facts, allow: &[Rung], bpf_log: bool) -> Result<Attached, String> {
    let plan = plan(facts);
    let options = AttachOptions {
        allow: Some(allow.to_vec()),
        bpf_log,
        ..AttachOptions::default()
    };
    let attached = Attached::attach(facts, &plan, &options);
    let report = attached.report();
    let hooks = Family::ALL.map(|family| report.of(family));
    if hooks
        .iter()
        .flat_map(|hook| &hook.attached)
        .any(|rung| allow.first() == Some(rung))
    {
        return Ok(attached);
    }
    let failed = hooks
        .iter()
        .flat_map(|hook| &hook.failed)
        .filter(|failure| allow.contains(&failure.rung));
    let excluded = hooks
        .iter()
        .flat_map(|hook| &hook.excluded)
        .filter(|exclusion| allow.contains(&exclusion.rung));
    let reasons = failed
        .map(|failure| failure.error.clone())
        .chain(excluded.map(|exclusion| exclusion.reason.to_string()));
    Err(report
        .object
        .iter()
        .cloned()
        .chain(reasons)
        .collect::<Vec<_>>()
        .join("; "))
}

/// Whether a rung that did not attach is a fact of this kernel (skip) or a mistake of ours (fail): the verifier's refusals
/// are always ours.
pub(crate) fn not_attached(reason: String) -> Outcome {
    if reason.contains("verifier") || reason.contains("object") {
        Err(reason.into())
    } else {
        Ok(Verdict::Skipped(reason))
    }
}

/// All events that come within `wait`, or the first `enough`.
pub(crate) async fn collect(
    events: &mut Events,
    wait: std::time::Duration,
    enough: usize,
) -> Result<Vec<eviction_user::bpf::Event>, Failed> {
    let mut found = Vec::new();
    while found.len() < enough {
        match tokio::time::timeout(wait, events.next()).await {
            Ok(event) => found.push(event?),
            Err(_) => break,
        }
    }
    Ok(found)
}

pub(crate) fn runtime() -> Result<tokio::runtime::Runtime, Failed> {
    Ok(tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?)
}
