#!/bin/bash
# The first process of a guest of kernels.sh. Runs the tests, or counts instructions if the kernel's command
# line names the rules to count with (instructions=none,kube-proxy). Writes the results to the second disk.
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

# Prints the value of a parameter of the kernel's command line.
parameter() {
  sed -nE "s/.*\b$1=([^ ]+).*/\1/p" /proc/cmdline
}

run_tests() {
  local start=$SECONDS
  local -a tests
  IFS=, read -r -a tests <<<"$(parameter tests)"
  # br_netfilter is a module in Debian's kernels, and its settings exist only once it is loaded.
  modprobe br_netfilter
  # Tests set its sysctls before rules load it.
  modprobe nf_conntrack
  # Older kernels limit the ICMP errors of all namespaces together to 1,000 a second. The lab causes more, all
  # at once.
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
