//! What a person sees while `cargo xtask` works: one aligned line per step, and signs of life from long ones.

use std::cell::Cell;
use std::io::{Write, stdout};

/// Width of the name column, wide enough for every step and suite.
const NAME: usize = 22;
/// Width of what tells apart who speaks, where two do.
const LABELS: usize = 8;
/// A compiler's or a test's line may be thousands of characters long; its beginning is a sign of life enough.
const WIDTH: usize = 120;

/// `  name                 state  detail`
pub fn step(name: &str, state: &str, detail: &str) {
    say(format!("  {name:<NAME$} {state:<8} {detail}").trim_end());
}

/// A line below a step that is still going on.
pub fn progress(text: &str) {
    say(&format!("  {:<NAME$} {text}", "")
        .chars()
        .take(WIDTH)
        .collect::<String>());
}

thread_local! {
    static LABEL: Cell<&'static str> = const { Cell::new("") };
}

/// What this thread says from here on begins with `label`: another one speaks at the same time.
pub fn label(label: &'static str) {
    LABEL.set(label);
}

/// One line, at once: progress that sits in a buffer is none.
pub fn say(line: &str) {
    let label = LABEL.get();
    let mut out = stdout().lock();
    if !label.is_empty() {
        let _ = write!(out, "{label:<LABELS$}|");
    }
    // A reader that went away (`| head`) is no reason to stop working.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
