#!/bin/bash
# The first process of a guest of kernels.sh: runs the tests, or counts instructions where the kernel's command line says by
# which rules (instructions=none,kube-proxy), and writes the results to the second disk.
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
mkdir -p /dev/shm
mount -t tmpfs shm /dev/shm
exec >/dev/ttyS0 2>&1
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root CI=true NO_COLOR=1 NFT_PROXY_TEST_PATIENCE_MS=600000
ip link set lo up
uname -r
cd /project || exit

# The value of a parameter of the kernel's command line.
parameter() {
  sed -nE "s/.*\b$1=([^ ]+).*/\1/p" /proc/cmdline
}

run_tests() {
  local start=$SECONDS
  local -a tests
  IFS=, read -r -a tests <<<"$(parameter tests)"
  # A module of Debian's kernels, whose settings exist once it is loaded.
  modprobe br_netfilter
  # Older kernels have one limit of ICMP errors for all namespaces, 1,000 a second, and the lab's refusals come at once.
  echo 100000 >/proc/sys/net/ipv4/icmp_msgs_per_sec
  echo 100000 >/proc/sys/net/ipv4/icmp_msgs_burst
  scripts/in-namespace.sh vitest run --config vitest.kernels.config.ts "${tests[@]}"
  printf '{"kernel": "%s", "seconds": %d, "results": %s}' "$(uname -r)" "$((SECONDS - start))" "$(cat .cache/test-results.json || echo null)" >/dev/vdb
}

IFS=, read -r -a rules <<<"$(parameter instructions)"
if ((${#rules[@]})); then scripts/kernels-instructions.sh "${rules[@]}" >/dev/vdb; else run_tests; fi
sync
echo o >/proc/sysrq-trigger
sleep 60
