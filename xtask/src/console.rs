//! What a person sees while `cargo xtask` works: one aligned line per step, and signs of life from long ones.

use std::io::{Write, stdout};

/// Width of the name column, wide enough for every step and suite.
const NAME: usize = 22;
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

/// One line, at once: progress that sits in a buffer is none.
pub fn say(line: &str) {
    let mut out = stdout().lock();
    // A reader that went away (`| head`) is no reason to stop working.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
