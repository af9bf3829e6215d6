#!/bin/busybox sh
# PID 1 of a guest: mounts what a node has, loads the modules asked for, runs the command, says how it ended.
# ttyS0 = kernel console, ttyS1 = the command's output, ttyS2 = a tar of /out.

/bin/busybox --install -s /bin
export PATH=/bin:/sbin:/usr/bin:/usr/sbin HOME=/root TERM="${TERM:-linux}"
mount -t devtmpfs dev /dev
echo "eviction-init: started" >/dev/ttyS0

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mkdir -p /dev/pts /dev/shm /tmp /run /out /root
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /run
mount -t tracefs tracefs /sys/kernel/tracing
mount -t debugfs debugfs /sys/kernel/debug
mount -t securityfs securityfs /sys/kernel/security
mount -t bpf bpf /sys/fs/bpf
ln -s /proc/self/mounts /etc/mtab
ip link set lo up 2>/dev/null
echo 60 >/proc/sys/kernel/watchdog_thresh

. /etc/guest
for line in ttyS1 ttyS2; do
	[ -c "/dev/$line" ] && stty -F "/dev/$line" raw -echo
done
# Held open, so that no byte is lost between two writers.
exec 3>/dev/ttyS1

finish() {
	if [ -n "$(ls -A /out)" ]; then
		tar -cf - -C /out . >/dev/ttyS2
	fi
	printf 'eviction-verdict %s %s\n' "$NONCE" "$1" >&3
	exec 3>&-
	sync
	poweroff -f
}

fail() {
	echo "eviction-init: $1" >&3
	finish 125
}

while read -r module; do
	insmod "/modules/$module" || fail "module $module could not be loaded"
done </modules/order

case "$CGROUP" in
v2)
	mount -t cgroup2 cgroup2 /sys/fs/cgroup || fail "cgroup v2 could not be mounted"
	for controller in memory pids cpu io; do
		echo "+$controller" >/sys/fs/cgroup/cgroup.subtree_control || fail "no $controller controller on cgroup v2"
	done
	;;
v1)
	mount -t tmpfs tmpfs /sys/fs/cgroup
	for controller in memory freezer cpu,cpuacct pids cpuset blkio; do
		mkdir -p "/sys/fs/cgroup/$controller"
		mount -t cgroup -o "$controller" cgroup "/sys/fs/cgroup/$controller" || fail "no $controller controller on cgroup v1 in this kernel"
	done
	# As systemd does; kernels before 5.11 count flat without it.
	[ -e /sys/fs/cgroup/memory/memory.use_hierarchy ] && echo 1 >/sys/fs/cgroup/memory/memory.use_hierarchy
	;;
esac

echo "eviction-init: running the command" >/dev/ttyS0
cd /root || fail "no home"
if [ "$INTERACTIVE" = 1 ]; then
	stty -F /dev/ttyS1 sane
	setsid sh -c 'exec sh -l <>/dev/ttyS1 >&0 2>&1'
else
	setsid sh /etc/command </dev/null >&3 2>&1
fi
finish $?
