//! Judges a guest by what it prints: a pure state machine over lines of the kernel's console and of the
//! command's output. No verdict is a failure, and so is any sign of a sick kernel.

/// What init prints before anything else; a crash before it is the emulator's or the boot's, not the command's.
const STARTED: &str = "eviction-init: started";

/// Lines of a kernel's report that are shown; the console is kept as a whole.
const REPORT: usize = 60;

/// A fresh word per boot, so that nothing a command prints can pass for a verdict.
#[derive(Debug)]
pub(super) struct Watch {
    verdict_mark: String,
    started: bool,
    crash: Option<String>,
    verdict: Option<i32>,
}

impl Watch {
    pub(super) fn new(nonce: &str) -> Self {
        Self {
            verdict_mark: format!("eviction-verdict {nonce} "),
            started: false,
            crash: None,
            verdict: None,
        }
    }

    pub(super) fn console(&mut self, line: &str) {
        self.started |= line.contains(STARTED);
        if self.crash.is_none() && is_crash(line) {
            self.crash = Some(line.trim().to_owned());
        }
    }

    /// Takes a line of output; returns what of it the command itself printed.
    pub(super) fn output<'a>(&mut self, line: &'a str) -> Option<&'a str> {
        // The verdict follows on the same line when the command's last line had no end.
        let Some((before, code)) = line.split_once(&self.verdict_mark) else {
            return Some(line);
        };
        self.verdict = code.trim().parse().ok();
        (!before.is_empty()).then_some(before)
    }

    pub(super) fn started(&self) -> bool {
        self.started
    }

    pub(super) fn crash(&self) -> Option<&str> {
        self.crash.as_deref()
    }

    pub(super) fn verdict(&self) -> Option<i32> {
        self.verdict
    }
}

/// What the kernel said of it: from the line on that told, for the calls come first and the registers of user space last.
pub(super) fn report(console: &str, marker: &str) -> String {
    let lines = console.lines().skip_while(|line| line.trim() != marker);
    let lines = lines.take(REPORT).map(|line| format!("    {line}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Signs of a sick kernel. The kernel repeats its command line, which names some of them.
fn is_crash(line: &str) -> bool {
    if line.contains("ommand line:") {
        return false;
    }
    let stall = line.contains("rcu") && line.contains("stall") && line.contains("detected");
    stall
        || [
            "Kernel panic",
            "Oops:",
            "BUG:",
            "soft lockup",
            "hard LOCKUP",
        ]
        .iter()
        .any(|mark| line.contains(mark))
}

/// The kernel changes its own code behind a breakpoint (`smp_text_poke_batch_finish`, for static keys and attached hooks) and takes
/// the breakpoint away once every CPU has heard of the change. QEMU's emulated CPUs may still run into it then, from code that they
/// had translated before, and the kernel no longer knows the breakpoint: `Oops: int3`. No program that is attached can make one.
pub(super) fn is_emulators(marker: &str) -> bool {
    marker.contains("Oops: int3")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_is_taken_and_the_output_left_clean() {
        let mut watch = Watch::new("abc");
        assert_eq!(watch.output("hello"), Some("hello"));
        assert_eq!(
            watch.output("no newlineeviction-verdict abc 3"),
            Some("no newline")
        );
        assert_eq!(watch.verdict(), Some(3));
    }

    #[test]
    fn a_forged_verdict_is_output() {
        let mut watch = Watch::new("abc");
        assert_eq!(
            watch.output("eviction-verdict xyz 0"),
            Some("eviction-verdict xyz 0")
        );
        assert_eq!(watch.verdict(), None);
    }

    #[test]
    fn a_sick_kernel_is_noticed() {
        for line in [
            "[    3.1] Kernel panic - not syncing: Attempted to kill init!",
            "[    3.1] Oops: 0000 [#1] PREEMPT SMP NOPTI",
            "[    3.1] BUG: kernel NULL pointer dereference, address: 0000000000000008",
            "[   66.0] watchdog: BUG: soft lockup - CPU#1 stuck for 61s! [sh:77]",
            "[   80.0] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
            "[   80.0] rcu: INFO: rcu_sched self-detected stall on CPU",
        ] {
            let mut watch = Watch::new("abc");
            watch.console(line);
            assert_eq!(watch.crash(), Some(line.trim()), "{line}");
        }
    }

    #[test]
    fn only_a_breakpoint_that_nobody_knows_is_the_emulators_doing() {
        for (line, expected) in [
            ("[    1.25] Oops: int3: 0000 [#1] SMP NOPTI", true),
            ("[    3.1] Oops: 0000 [#1] PREEMPT SMP NOPTI", false),
            ("[    3.1] Oops: general protection fault [#1]", false),
            ("[   66.0] watchdog: BUG: soft lockup - CPU#1", false),
        ] {
            assert_eq!(is_emulators(line), expected, "{line}");
        }
    }

    #[test]
    fn the_report_of_a_sick_kernel_begins_where_it_is_told() {
        let marker = "[ 66.0] watchdog: BUG: soft lockup";
        let console = format!("[ 1.0] fine\n{marker}\n[ 66.0] RIP: 0010:spin\n[ 66.0]  </TASK>\n");
        let expected = format!("    {marker}\n    [ 66.0] RIP: 0010:spin\n    [ 66.0]  </TASK>");
        assert_eq!(report(&console, marker), expected);
        let long = format!("{marker}\n{}", "call\n".repeat(100));
        assert_eq!(report(&long, marker).lines().count(), REPORT);
    }

    #[test]
    fn an_ordinary_console_is_no_crash() {
        let mut watch = Watch::new("abc");
        for line in [
            "[    0.0] Command line: console=ttyS0 oops=panic rcupdate.rcu_cpu_stall_timeout=300",
            "[    0.0] Kernel command line: console=ttyS0 oops=panic rcupdate.rcu_cpu_stall_timeout=300",
            "[    9.0] Memory cgroup out of memory: Killed process 90 (hog)",
        ] {
            watch.console(line);
        }
        assert_eq!((watch.crash(), watch.started()), (None, false));
        watch.console("eviction-init: started");
        assert!(watch.started());
    }
}
