//! Victims of the OOM killer. The kernel's log is not read: its wording changes (user case 13).

use aya_ebpf::{
    helpers::bpf_get_current_pid_tgid, macros::raw_tracepoint, programs::RawTracePointContext,
};

use crate::{
    globals::{TASK_TGID, VICTIM_IS_TASK},
    hierarchy, observed, reading,
};

/// `mark_victim(task, uid)` from 6.9 on and in the stable kernels that took it over (5.10.262 has it), else `mark_victim(pid)`.
#[raw_tracepoint(tracepoint = "mark_victim")]
pub(crate) fn ev_oom_victim(ctx: RawTracePointContext) -> i32 {
    if VICTIM_IS_TASK.load() == 1 {
        let task: u64 = ctx.arg(0);
        let pid = reading::half(task, TASK_TGID.load(), 0);
        observed::oom_victim(pid, hierarchy::id(hierarchy::owner_of(task).css));
        return 0;
    }
    let pid: u32 = ctx.arg(0);
    let current = bpf_get_current_pid_tgid();
    // Whoever asks for the page is the victim more often than not; of another process the cgroup is not known here.
    let own = current as u32 == pid || (current >> 32) as u32 == pid;
    let cgroup_id = if own { hierarchy::id_of_current() } else { 0 };
    observed::oom_victim(pid, cgroup_id);
    0
}
