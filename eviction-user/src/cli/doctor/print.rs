//! The findings for people: one line each, the fix below it.

use super::Findings;
use super::checks::State;

pub(super) fn text(findings: &Findings) {
    println!("kernel {}", findings.kernel);
    for (family, rung) in &findings.sources {
        println!("events for {:<12} from: {}", family, source(rung));
    }
    let mut area = "";
    for check in &findings.checks {
        if check.area != area {
            area = check.area;
            println!("\n{area}");
        }
        println!(
            "  {} {:<40} {}",
            mark(check.state),
            check.item,
            check.detail
        );
        if let Some(fix) = &check.fix {
            println!("  {:>6} fix: {fix}", "");
        }
    }
}

fn source(rung: &str) -> String {
    if rung == "none" {
        "none: looking on a timer".to_owned()
    } else {
        rung.to_owned()
    }
}

fn mark(state: State) -> &'static str {
    match state {
        State::Used => "[ ok ]",
        State::Spare => "[ -- ]",
        State::Absent => "[ no ]",
        State::NoPrivilege => "[priv]",
    }
}
