//! The runs, for people.

use eviction_user::bench::stats::Sorted;

use super::Mode;
use super::round::Round;

const MIB: f64 = 1_048_576.0;

pub(super) fn line(round: &Round) -> String {
    let stopped = round
        .stopped
        .crossing_to_last_allocation_us
        .zip(round.stopped.overshoot_bytes);
    let stopped = stopped.map_or("not stopped".to_owned(), |(us, bytes)| {
        format!("{:.3} ms, {:.2} MiB", us as f64 / 1e3, bytes as f64 / MIB)
    });
    format!(
        "{:<14}{stopped:<28}{}",
        name(round.mode),
        round.victims.join(", ")
    )
}

pub(super) fn table(runs: &[Round], rate_mib: u64) {
    println!(
        "crossing to the hog's last allocation ({rate_mib} MiB/s), in ms, and what it took meanwhile, in MiB"
    );
    println!("who evicts    runs  median       max  overshoot median      max  other victims");
    for mode in Mode::ALL {
        let of_mode: Vec<_> = runs.iter().filter(|round| round.mode == mode).collect();
        // In a guest there is no notifier.
        if of_mode.is_empty() {
            continue;
        }
        let us = sorted(&of_mode, |round| {
            round.stopped.crossing_to_last_allocation_us
        });
        let bytes = sorted(&of_mode, |round| round.stopped.overshoot_bytes);
        let others = of_mode.iter().flat_map(|round| &round.victims);
        let others = others.filter(|name| *name != "hog").count();
        println!(
            "{:<14}{:>4}{:>8}{:>10}{:>18}{:>9}{:>15}",
            name(mode),
            us.len(),
            number(us.median().map(|median| median.value / 1e3)),
            number(us.max().map(|max| max / 1e3)),
            number(bytes.median().map(|median| median.value / MIB)),
            number(bytes.max().map(|max| max / MIB)),
            others
        );
    }
    for mode in [Mode::KubeletPoll, Mode::KubeletMemcg] {
        let median = |mode: Mode| {
            let of_mode: Vec<_> = runs.iter().filter(|round| round.mode == mode).collect();
            let us = sorted(&of_mode, |round| {
                round.stopped.crossing_to_last_allocation_us
            });
            us.median().map(|median| median.value)
        };
        if let Some((theirs, ours)) = median(mode).zip(median(Mode::Eviction)) {
            println!("{}: {:.0} times as long", name(mode), theirs / ours);
        }
    }
}

fn sorted(runs: &[&Round], of: impl Fn(&Round) -> Option<u64>) -> Sorted {
    let values = runs.iter().filter_map(|round| of(round));
    Sorted::new(values.map(|value| value as f64).collect())
}

fn number(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.2}"))
}

fn name(mode: Mode) -> &'static str {
    match mode {
        Mode::KubeletPoll => "kubelet-poll",
        Mode::KubeletMemcg => "kubelet-memcg",
        Mode::Eviction => "eviction",
    }
}
