//! A file system whose module is loaded only after the program has started: its hooks come with the mount, and go on telling.

use eviction_tests::oracle::Fs;

use crate::story::Story;

/// The module is loaded with the guest and taken out again, so that its file is at hand. 5.10 has no types of modules: there
/// the hooks learn from `statfs` whose blocks they see.
const SCRIPT: &str = r#"
rmmod xfs && ! grep -q "^xfs " /proc/modules || { echo "xfs is still there"; exit 1; }
group=/sys/fs/cgroup/late
mkdir -p /data $group
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
mkdir $group/hog
eviction run --platform=host --root=$group --nodefs=/data --eviction-hard='nodefs.available<150Mi,memory.available<1Mi' \
    --dry-run --output=json >/tmp/late & runner=$!
told() {
    for i in $(seq 600); do [ $(grep -c "$1" /tmp/late) -ge $2 ] && return; sleep 0.2; done
    echo "no $1 in:"; cat /tmp/late; exit 1
}
told '"record":"started"' 1
insmod /modules/xfs.ko && mount -t xfs /dev/vda /data || exit 1
told '"record":"moved".*"source":"kprobe/xfs_' 1
sh -c "echo \$\$ >$group/hog/cgroup.procs; dd if=/dev/zero of=/data/fill bs=1M count=300" 2>/dev/null
told '"record":"decision".*"source":"kprobe/xfs_.*"victim":"hog"' 1
umount /data
told '"record":"moved"' 2
kill $runner; wait $runner || { echo "it ended with $?"; exit 1; }
grep -o '"source":"kprobe/[a-z_]*"' /tmp/late | tail -1
"#;

pub(crate) const STORY: Story = Story {
    script: SCRIPT,
    fs: Fs::Xfs,
    modules: &["xfs"],
};
