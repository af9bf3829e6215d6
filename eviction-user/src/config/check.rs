//! Judges the settings in force: what is wrong, and what is suspicious.

use super::effective::{Effective, entry_key, single_key};
use super::error::{ConfigError, SettingFault};
use super::keys;
use super::origin::Sourced;
use super::warning::{Warning, WarningKind};
use crate::model::{Limit, Signal, Span, Threshold};
use crate::policy::thresholds::defaults;
use crate::policy::thresholds::parse::Source;
use std::path::Path;

/// Shorter cycles would do nothing but cost.
const SHORTEST_INTERVAL: Span = Span::from_millis(100);
/// Valid in `enforceNodeAllocatable` (kubelet validation, v1.36).
const ENFORCEABLE: [&str; 6] = [
    "none",
    "pods",
    "system-reserved",
    "system-reserved-compressible",
    "kube-reserved",
    "kube-reserved-compressible",
];

/// What makes the settings unusable, apart from the thresholds themselves.
pub(super) fn values(settings: &Effective) -> Result<(), ConfigError> {
    for (key, percent) in [
        (keys::IMAGE_GC_HIGH, &settings.image_gc_high),
        (keys::IMAGE_GC_LOW, &settings.image_gc_low),
    ] {
        let value = percent.value;
        if !(0..=100).contains(&value) {
            return Err(fault(key, percent, SettingFault::NoPercentage { value }));
        }
    }
    let (low, high) = (&settings.image_gc_low, &settings.image_gc_high);
    if low.value >= high.value {
        // The one that was set is to blame; the other may be a default.
        let blamed = if low.origin.is_default() {
            (keys::IMAGE_GC_HIGH, high)
        } else {
            (keys::IMAGE_GC_LOW, low)
        };
        let order = SettingFault::ImageGcOrder {
            low: low.value,
            high: high.value,
        };
        return Err(fault(blamed.0, blamed.1, order));
    }
    for (key, age) in [
        (keys::IMAGE_MIN_AGE, &settings.image_min_age),
        (keys::IMAGE_MAX_AGE, &settings.image_max_age),
    ] {
        if age.value.is_negative() {
            let text = age.value.to_string();
            return Err(fault(key, age, SettingFault::Negative(text)));
        }
    }
    enforceable(settings)?;
    if !matches!(
        settings.cgroup_driver.value.as_str(),
        "cgroupfs" | "systemd"
    ) {
        let choice = SettingFault::NoChoice {
            found: settings.cgroup_driver.value.clone(),
            known: "cgroupfs, systemd",
        };
        return Err(fault(keys::CGROUP_DRIVER, &settings.cgroup_driver, choice));
    }
    places(settings)?;
    let interval = &settings.monitoring_interval;
    if interval.value < SHORTEST_INTERVAL {
        let too_short = SettingFault::Interval {
            text: interval.value.to_string(),
            reason: format!("must be at least {SHORTEST_INTERVAL}"),
        };
        return Err(fault(keys::MONITORING_INTERVAL, interval, too_short));
    }
    Ok(())
}

fn places(settings: &Effective) -> Result<(), ConfigError> {
    let root = &settings.cgroup_root;
    if root
        .value
        .split('/')
        .any(|level| matches!(level, "." | ".."))
    {
        let text = root.value.clone();
        return Err(fault(keys::CGROUP_ROOT, root, SettingFault::NoCgroup(text)));
    }
    let logs = &settings.pod_logs;
    if !Path::new(&logs.value).is_absolute() {
        let text = logs.value.clone();
        return Err(fault(keys::POD_LOGS, logs, SettingFault::NotAbsolute(text)));
    }
    Ok(())
}

fn enforceable(settings: &Effective) -> Result<(), ConfigError> {
    let options = &settings.enforce.value;
    if let Some(other) = options.iter().find(|o| !ENFORCEABLE.contains(&o.as_str())) {
        let choice = SettingFault::NoChoice {
            found: other.clone(),
            known: "none, pods, system-reserved, system-reserved-compressible, kube-reserved, kube-reserved-compressible",
        };
        return Err(fault(keys::ENFORCE, &settings.enforce, choice));
    }
    if options.len() > 1 && options.iter().any(|option| option == "none") {
        return Err(fault(
            keys::ENFORCE,
            &settings.enforce,
            SettingFault::NoneAmongOthers,
        ));
    }
    Ok(())
}

fn fault<T>(key: &str, setting: &Sourced<T>, fault: SettingFault) -> ConfigError {
    ConfigError::setting(&setting.origin, single_key(key, &setting.origin), fault)
}

/// What is accepted, but surely meant otherwise. The thresholds must have been parsed.
pub(super) fn suspicious(settings: &Effective) -> Vec<Warning> {
    let mut found = Vec::new();
    found.extend(dropped_defaults(settings));
    for source in [Source::Hard, Source::Soft] {
        limits(settings, source, &mut found);
    }
    soft_below_hard(settings, &mut found);
    graces(settings, &mut found);
    reclaims(settings, &mut found);
    found.extend(single(
        keys::TRANSITION_PERIOD,
        &settings.transition_period,
        |period| (*period <= Span::ZERO).then_some(WarningKind::HidesConditions(*period)),
    ));
    found.extend(single(
        keys::MAX_POD_GRACE,
        &settings.max_pod_grace,
        |grace| (*grace < 0).then_some(WarningKind::NegativeMaxGrace(*grace)),
    ));
    found
}

fn single<T>(
    key: &str,
    setting: &Sourced<T>,
    judge: impl FnOnce(&T) -> Option<WarningKind>,
) -> Option<Warning> {
    Some(Warning {
        origin: setting.origin.clone(),
        key: single_key(key, &setting.origin),
        kind: judge(&setting.value)?,
    })
}

/// About one entry of one of the four maps.
pub(super) fn about(
    settings: &Effective,
    source: Source,
    signal: &str,
    kind: WarningKind,
) -> Warning {
    let map = settings.map(source);
    let origin = map
        .entries
        .get(signal)
        .map_or(&map.origin, |entry| &entry.origin);
    Warning {
        origin: origin.clone(),
        key: entry_key(source, signal, origin),
        kind,
    }
}

/// User case 42.
fn dropped_defaults(settings: &Effective) -> Option<Warning> {
    let hard = &settings.hard;
    if hard.origin.is_default() {
        return None;
    }
    let dropped: Vec<_> = defaults::HARD
        .into_iter()
        .filter(|(signal, _)| !hard.entries.contains_key(*signal))
        .collect();
    (!dropped.is_empty()).then(|| Warning {
        origin: hard.origin.clone(),
        key: single_key(keys::HARD, &hard.origin),
        kind: WarningKind::DroppedDefaults(dropped),
    })
}

fn limits(settings: &Effective, source: Source, found: &mut Vec<Warning>) {
    for (name, text) in &settings.map(source).entries {
        let text = &text.value;
        let mut warn = |kind| found.push(about(settings, source, name, kind));
        if text == "0%" || text == "100%" {
            warn(WarningKind::SwitchedOff(text.clone()));
            continue;
        }
        let Ok(signal) = name.parse::<Signal>() else {
            continue;
        };
        if matches!(
            signal,
            Signal::ContainerFsAvailable | Signal::ContainerFsInodesFree
        ) {
            warn(WarningKind::ContainerFsOverwritten);
        }
        match threshold(settings, signal, source).map(|t| &t.limit) {
            // Not a number is below nothing; a part of nothing is nothing.
            Some(Limit::Percentage(part)) if part.is_nan() || *part == 0.0 => {
                warn(WarningKind::NeverMet(text.clone()));
            }
            Some(Limit::Percentage(1.0)) => warn(WarningKind::AlwaysMet(text.clone())),
            _ => {}
        }
    }
}

/// The parsed threshold of an entry: hard and soft ones come in this order.
fn threshold(settings: &Effective, signal: Signal, source: Source) -> Option<&Threshold> {
    let mut of_signal = settings.thresholds.iter().filter(|t| t.signal == signal);
    let has_hard = settings
        .hard
        .entries
        .get(signal.name())
        .is_some_and(|entry| entry.value != "0%" && entry.value != "100%");
    match source {
        Source::Soft if has_hard => of_signal.nth(1),
        _ => of_signal.next(),
    }
}

fn soft_below_hard(settings: &Effective, found: &mut Vec<Warning>) {
    for (name, soft_text) in &settings.soft.entries {
        let Ok(signal) = name.parse::<Signal>() else {
            continue;
        };
        let Some(hard_text) = settings.hard.entries.get(name) else {
            continue;
        };
        let pair = (
            threshold(settings, signal, Source::Soft),
            threshold(settings, signal, Source::Hard),
        );
        let (Some(soft), Some(hard)) = pair else {
            continue;
        };
        // A quantity and a part of an unknown capacity cannot be compared.
        let is_below = match (&soft.limit, &hard.limit) {
            (Limit::Quantity(soft), Limit::Quantity(hard)) => soft <= hard,
            // One of nothing has its own warning.
            (Limit::Percentage(soft), Limit::Percentage(hard)) => *soft != 0.0 && soft <= hard,
            _ => false,
        };
        if is_below {
            let kind = WarningKind::SoftNotAboveHard {
                soft: soft_text.value.clone(),
                hard: hard_text.value.clone(),
            };
            found.push(about(settings, Source::Soft, name, kind));
        }
    }
}

fn graces(settings: &Effective, found: &mut Vec<Warning>) {
    for (name, text) in &settings.soft_grace.entries {
        let kind = if !settings.soft.entries.contains_key(name) {
            WarningKind::IdleGrace
        } else if text.value.parse::<Span>().is_ok_and(Span::is_zero) {
            WarningKind::ZeroGrace
        } else {
            continue;
        };
        found.push(about(settings, Source::SoftGrace, name, kind));
    }
}

fn reclaims(settings: &Effective, found: &mut Vec<Warning>) {
    for name in settings.min_reclaim.entries.keys() {
        let Ok(signal) = name.parse::<Signal>() else {
            continue;
        };
        let mut of_signal = settings
            .thresholds
            .iter()
            .filter(|t| t.signal == signal)
            .peekable();
        let kind = if of_signal.peek().is_none() {
            WarningKind::IdleMinReclaim
        } else if of_signal.any(is_endless) {
            WarningKind::EndlessReclaim
        } else {
            continue;
        };
        found.push(about(settings, Source::MinReclaim, name, kind));
    }
}

fn is_endless(threshold: &Threshold) -> bool {
    match (&threshold.limit, &threshold.min_reclaim) {
        (Limit::Percentage(limit), Some(Limit::Percentage(more))) => limit + more >= 1.0,
        _ => false,
    }
}
