//! Tasks: where one is made.

use aya_ebpf::{macros::raw_tracepoint, programs::RawTracePointContext};
use eviction_ebpf::abi::Rung;

use crate::spend;

/// `task_newtask(task, clone_flags)`: the end of `copy_process()`, so every task there is: processes, threads, kernel threads,
/// and the workers of io_uring, which `sched_process_fork` does not show (`create_io_thread()`, 5.12 and later). The task is
/// counted by then. One call per task, exact: fentry or kprobe would see no more.
#[raw_tracepoint(tracepoint = "task_newtask")]
pub(crate) fn ev_new_task(ctx: RawTracePointContext) -> i32 {
    spend::task(&ctx, Rung::TraceNewTask);
    0
}
