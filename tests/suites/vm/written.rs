//! A file system without hooks of its own: what is written there wakes the loop, and the report says what that leaves out.

use eviction_tests::oracle::Fs;

use crate::story::Story;

/// With the line armed, dd writes past it; the timer looks there too, so it is the record of the event that counts.
/// A line crossed in the very moment in which it is armed is an event too, but nobody's: then dd writes again.
const SCRIPT: &str = r#"
group=/sys/fs/cgroup/written
mkdir -p /data $group && mount -t vfat /dev/vda /data || exit 1
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
mkdir $group/hog $group/other
eviction run --platform=host --root=$group --nodefs=/data --eviction-hard='nodefs.available<100Mi,memory.available<1Mi' \
    --dry-run --output=json >/tmp/written & runner=$!
told() {
    for i in $(seq 300); do grep -q "$1" /tmp/written && return; sleep 0.2; done
    echo "no $1 in:"; cat /tmp/written; exit 1
}
told 'nodefs.available: vfat is followed by what is written.*"record":"started"'
event='"cgroup":"/written/hog".*"record":"event","rung":"raw_tp/writeback_dirty_folio","signal":"nodefs.available"'
for i in $(seq 10); do
    sh -c "echo \$\$ >$group/hog/cgroup.procs; dd if=/dev/zero of=/data/fill bs=1M count=250" 2>/dev/null
    sleep 1
    grep -q "$event" /tmp/written && break
    rm /data/fill && sync && sleep 3
done
told "$event"
told '"record":"decision".*"signal":"nodefs.available"'
kill $runner; wait $runner || { echo "it ended with $?"; exit 1; }
eviction doctor --nodefs=/data | grep -o "looked at on the timer besides"
"#;

pub(crate) const STORY: Story = Story {
    script: SCRIPT,
    fs: Fs::Vfat,
    modules: &["vfat", "nls_cp437", "nls_ascii"],
};
