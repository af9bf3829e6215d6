//! One guest machine: is it whole, then the stories, with the rung that this kernel must use.

use std::time::Duration;

use anyhow::{Result, bail};
use eviction_tests::scenario;
use eviction_tests::suite::{self, Outcome};
use xtask::setup::Kernel;
use xtask::vm::{self, CgroupVersion, Guest, Line, image};
use xtask::workspace::Workspace;

/// All of one guest, under emulation on a busy machine.
const PATIENCE: Duration = Duration::from_secs(900);

/// Inodes of the guest's ext4; [`eviction_tests::scenario::InodeStory::guest`] knows the number too.
const INODES: &str = "8192";

/// What a guest runs. Every step prints a line, so that a failure shows which one it was.
const STEPS: &str = r#"
step() {
    name=$1; shift
    "$@" >/tmp/step 2>&1 && { echo "ok $name"; return; }
    echo "FAILED $name"; cat /tmp/step; exit 1
}
has() {
    grep -q "$1" "$2" || { echo "no $1 in:"; cat "$2"; return 1; }
}
whole() {
    for path in /sys/kernel/btf/vmlinux /sys/kernel/tracing/events /sys/fs/bpf /sys/kernel/security/lockdown; do
        [ -e $path ] || { echo "$path is not there"; return 1; }
    done
    eviction --version
}
doctor() {
    eviction doctor --output=json >/tmp/doctor || { echo "exit $?"; cat /tmp/doctor; return 1; }
    has '"memory":"fentry/page_counter_try_charge"' /tmp/doctor && has '"inodes":"fentry/inode_init_owner"' /tmp/doctor
}
# A tmpfs file is memory too, charged to whoever writes it: no workload is needed to see an event.
trace() {
    eviction trace --memory-step=1Mi --count=2 --seconds=60 --output=json >/tmp/trace 2>/tmp/trace.err &
    tracer=$!
    for i in $(seq 100); do grep -q tracing /tmp/trace.err && break; sleep 0.2; done
    mkdir -p $GROUP/traced
    sh -c "echo \$\$ >$GROUP/traced/cgroup.procs && dd if=/dev/zero of=/dev/shm/fill bs=64k count=256" 2>/dev/null
    wait $tracer || { cat /tmp/trace.err; return 1; }
    rm /dev/shm/fill
    has '"cgroup":"/traced"' /tmp/trace && has '"rung":"fentry/page_counter_try_charge"' /tmp/trace
}
replay() {
    eviction replay /tmp/recording >/tmp/replay && has "the same as recorded, byte for byte" /tmp/replay || return 1
    eviction replay /tmp/recording --strip /tmp/inputs || return 1
    eviction replay /tmp/recording --recorded --output=json | grep '"record":"decision"' >/tmp/lived
    eviction replay /tmp/inputs --output=json | grep '"record":"decision"' >/tmp/again
    has '"Evict"' /tmp/lived && cmp /tmp/lived /tmp/again
}
# The multi-generational LRU (on by default in 7.3) leaves pages that are only read inactive: the case is the other LRU's.
cache() {
    lru=/sys/kernel/mm/lru_gen/enabled
    [ ! -e $lru ] || echo n >$lru || return 1
    eviction-scenario guest-cache /dev/vdd
}
# A process that has ended and that nobody waits for keeps its removed cgroup. (Memory does so up to 6.12; 7.3 gives it to the parent.)
dying() {
    config=/tmp/dying.yaml
    printf 'apiVersion: eviction.dev/v1alpha1\nkind: EvictionConfiguration\nmaximumDyingCgroups: 0\nevictionHard: {memory.available: 1Ti}\n' >$config
    run="eviction run --platform=host --root=$GROUP/held --config=$config --events=timer --dry-run"
    mkdir $GROUP/held $GROUP/held/calm
    if [ $GROUP = /sys/fs/cgroup/memory ]; then
        $run 2>/tmp/refused && return 1
        has "cgroup v1 does not tell" /tmp/refused
        return
    fi
    mkdir $GROUP/dead
    (sh -c "echo \$\$ >$GROUP/dead/cgroup.procs; exec sleep 2" & exec sleep 600) & keeper=$!
    for i in $(seq 100); do grep -q "populated 1" $GROUP/dead/cgroup.events && break; sleep 0.1; done
    for i in $(seq 100); do rmdir $GROUP/dead 2>/dev/null && break; sleep 0.1; done
    dying=$(sed -n 's/^nr_dying_descendants //p' $GROUP/cgroup.stat)
    [ $dying -gt 0 ] || { echo "no dying cgroup"; return 1; }
    eviction explain --platform=host --root=$GROUP/held --eviction-hard='memory.available<1Mi' --output=json >/tmp/explained || return 1
    has "\"dying_cgroups\":[1-9]" /tmp/explained || return 1
    $run >/tmp/held & runner=$!
    for i in $(seq 100); do grep -q held-back /tmp/held && break; sleep 0.2; done
    kill $runner $keeper; wait $runner
    has "removed cgroups still hold memory, 0 are allowed" /tmp/held
}
# Kprobes can be switched off as a whole: the program stays attached and is never called.
silenced() {
    switch=/sys/kernel/debug/kprobes/enabled
    echo 0 >$switch
    eviction-scenario guest-memory --rungs kprobe/page_counter_try_charge --record /tmp/silenced --expect-source timer
    code=$?
    echo 1 >$switch
    [ $code = 0 ] || return 1
    eviction replay /tmp/silenced --recorded >/tmp/silence && has "saw nothing of it" /tmp/silence
}
unplugged() {
    cpu=/sys/devices/system/cpu/cpu1/online
    (while :; do echo 0 >$cpu; sleep 0.2; echo 1 >$cpu; sleep 0.2; done) & toggler=$!
    eviction-scenario guest-memory "$@"
    code=$?
    kill $toggler
    wait $toggler
    echo 1 >$cpu
    return $code
}
# What the kernel offers without eBPF: PSI and memory.events on cgroup v2, eventfds on v1.
notified() {
    mkdir $GROUP/notified
    limit=memory.max; [ $GROUP = /sys/fs/cgroup ] || limit=memory.limit_in_bytes
    echo 67108864 >$GROUP/notified/$limit
    eviction run --platform=host --root=$GROUP/notified --eviction-hard='memory.available<1Mi,allocatableMemory.available<1Mi' \
        --events=psi --dry-run --output=json >/tmp/notified & runner=$!
    for i in $(seq 100); do grep -q started /tmp/notified && break; sleep 0.2; done
    kill $runner; wait $runner
    rmdir $GROUP/notified
    if [ $GROUP = /sys/fs/cgroup ]; then
        has '"memory":"psi/memory"' /tmp/notified && has '"name":"memory.events","places":1' /tmp/notified
    else
        has '"memory":"memcg-eventfd"' /tmp/notified
    fi
}
# There is no way back from it: the last step.
locked() {
    echo confidentiality >/sys/kernel/security/lockdown || return 1
    eviction doctor --output=json >/tmp/locked
    code=$?
    [ $code = 3 ] || { echo "exit $code"; cat /tmp/locked; return 1; }
    has '"item":"kernel lockdown","state":"absent","detail":"confidentiality","fix":"boot with lockdown=integrity"' /tmp/locked || return 1
    has 'kernel lockdown is at `confidentiality`: eBPF may not read kernel memory' /tmp/locked || return 1
    eviction-scenario guest-memory --record /tmp/confidential || return 1
    eviction replay /tmp/confidential --recorded >/tmp/fallback && has "events from memory: \(psi/memory\|memcg-eventfd\)" /tmp/fallback
}
# No swap anywhere: a killer that goes by stalls would be too late (case 11).
swapless() {
    [ $(wc -l </proc/swaps) = 1 ] || { cat /proc/swaps; return 1; }
    eviction-scenario guest-memory "$@"
}
GROUP=/sys/fs/cgroup; [ -d /sys/fs/cgroup/memory ] && GROUP=/sys/fs/cgroup/memory
step "the guest is whole" whole
step "doctor" doctor
step "trace" trace
step "case 11, memory by fentry and no swap" swapless --record /tmp/recording --expect-source fentry/page_counter_try_charge
step "its recording replays" replay
step "memory by kprobe" eviction-scenario guest-memory --rungs kprobe/page_counter_try_charge --expect-source kprobe/page_counter_try_charge
step "no crossing is missed" eviction-scenario soundness --lines group --crossings 3 --seed 1
step "at most one run for 32 pages" eviction-scenario charge-runs --lines group --charge 64 --distance 200 --rungs fentry/page_counter_try_charge --pages-per-run 32
step "notifications without eBPF" notified
step "memory without eBPF" eviction-scenario guest-memory --timer --expect-source timer
step "cases 14 and 15, page cache in use" cache
step "case 18, dying cgroups" dying
step "a hook that is switched off" silenced
step "a CPU that goes and comes" unplugged --expect-source fentry/page_counter_try_charge
step "a CPU that came back, page faults" eviction-scenario guest-memory --replug 1 --rungs perf/page-faults,raw_tp/mm_filemap_add_to_page_cache --expect-source perf/page-faults
step "case 13 and 69, an OOM kill seen from a cgroup namespace" eviction-scenario oom --namespace
step "case 40, a soft threshold of PIDs" eviction-scenario pids
step "inodes by fentry" eviction-scenario guest-inodes /dev/vda --expect-source fentry/inode_init_owner
step "inodes by kprobe" eviction-scenario guest-inodes /dev/vdb --rungs kprobe/inode_init_owner --expect-source kprobe/inode_init_owner
step "inodes without eBPF" eviction-scenario guest-inodes /dev/vdc --timer --expect-source timer
step "case 62, lockdown at confidentiality" locked
"#;

pub(crate) fn run(series: &str, cgroup: CgroupVersion) -> Result<Outcome> {
    let workspace = Workspace::find()?;
    let folder = tempfile::tempdir()?;
    let command = ["sh", "-c", STEPS].map(str::to_owned).to_vec();
    let mut guest = Guest::new(Kernel::find(&workspace, series)?, cgroup, command);
    let programs = suite::programs()?;
    let programs = ["eviction", "eviction-load", "eviction-scenario"]
        .map(|name| (programs.join(name), format!("/bin/{name}")));
    guest.files = programs.to_vec();
    for disk in ["a", "b", "c"] {
        let path = folder.path().join(disk);
        image::ext4(&path, 32 << 20, INODES)?;
        guest.disks.push(path);
    }
    let cache = folder.path().join("d");
    std::fs::File::create(&cache)?.set_len(scenario::cache::FILE)?;
    guest.disks.push(cache);
    guest.timeout = PATIENCE;
    let finished = vm::run(&workspace, &guest, &mut |line| {
        if let Line::Notice(text) = line {
            println!("    {text}");
        }
    })?;
    let passed = finished
        .output
        .lines()
        .filter(|line| line.starts_with("ok "))
        .count();
    if finished.code != 0 || passed != STEPS.matches("\nstep \"").count() {
        bail!(
            "the guest ended with {}\n{}",
            finished.code,
            finished.output
        );
    }
    Ok(Outcome::Noted(format!(
        "{passed} steps, {} s",
        finished.elapsed.as_secs()
    )))
}
