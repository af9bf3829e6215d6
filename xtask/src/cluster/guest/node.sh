# Runs in the guest, its root directory on the disk: brings up the runtime and the kubelet, and keeps them up.

/bin/busybox --install -s /bin
export PATH=/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /run
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t bpf bpf /sys/fs/bpf
mount -t tracefs tracefs /sys/kernel/tracing
# As systemd makes all mounts of a node; pods that follow them need it.
mount --make-rshared /

. /etc/node
hostname "$NODE"
ip link set lo up
ip addr add "$ADDRESS/$PREFIX" dev eth0
ip link set eth0 up
ip route add default via "$GATEWAY"

# Whoever connects has a shell; only the machine that the guest runs on can.
nc -ll -p "$SHELL_PORT" -e sh &

since_boot() {
	echo "$(cut -d' ' -f1 /proc/uptime) s after boot: $1"
}

since_boot "containerd is started"
containerd --config /etc/containerd.toml >/var/log/containerd.log 2>&1 &
for i in $(seq 600); do
	[ -S /run/containerd/containerd.sock ] && break
	sleep 0.2
done

# Whoever ends it gets another one, with the configuration of that moment.
while :; do
	since_boot "the kubelet is started"
	kubelet --config=/etc/kubernetes/kubelet.yaml --kubeconfig=/etc/kubernetes/kubelet.kubeconfig \
		--hostname-override="$NODE" --node-ip="$ADDRESS" --root-dir=/var/lib/kubelet -v=2 >>/var/log/kubelet.log 2>&1 &
	echo $! >/run/kubelet.pid
	wait $!
	sleep 1
done
