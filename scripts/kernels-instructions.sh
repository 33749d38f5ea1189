#!/bin/bash
# kernels-instructions.sh RULES...: counts the instructions of round trips and prints them as JSON. Runs in a
# guest of kernels.sh whose clock advances by 1 ns with each instruction. The guest is the node of the
# recorded town. Endpoints of some Services, a client pod and a client outside are network namespaces of the
# guest, and the instructions of both ends count, too. RULES are none, kube-proxy (its recorded rules) or
# names of transactions in /instructions. For fast-path, this script puts the interfaces into the flow tables,
# as the daemon does. Exits with 1 if a packet is lost.
set -euo pipefail

ROUND_TRIPS=3000
# A short round before the first is not counted, because it includes work that the kernel does once after its
# start.
ROUNDS=2

folder=/instructions

# namespace NAME NODE4 NODE6 ADDRESS4 ADDRESS6: makes a namespace whose default route is the node. The node's
# addresses have the prefix lengths of both networks.
namespace() {
  local name=$1 node4=$2 node6=$3
  ip netns add "$name"
  ip link add "$name" type veth peer name eth0 netns "$name"
  # Without duplicate address detection, addresses work at once. Without time-wait buckets, closed connections
  # leave no sockets behind, so later connections find a free port at once.
  sysctl -qw "net.ipv6.conf.$name.accept_dad=0"
  ip netns exec "$name" sysctl -qw net.ipv6.conf.eth0.accept_dad=0 net.ipv4.tcp_max_tw_buckets=0
  ip addr add "$node4" dev "$name"
  ip addr add "$node6" dev "$name"
  ip link set "$name" up
  ip -n "$name" addr add "$4/${node4#*/}" dev eth0
  ip -n "$name" addr add "$5/${node6#*/}" dev eth0
  ip -n "$name" link set lo up
  ip -n "$name" link set eth0 up
  ip -n "$name" route add default via "${node4%/*}"
  ip -n "$name" route add default via "${node6%/*}"
}

# answer serve|take PROTOCOL PORT ADDRESS...
answer() {
  local mode=$1 protocol=$2 port=$3 address
  for address in "${@:4}"; do
    ip -n endpoints addr replace "$address" dev eth0
    ip route replace "$address" dev endpoints
    ip netns exec endpoints "$folder/round-trips" "$mode" "$protocol" "$address" "$port" &
  done
}

make_town() {
  namespace pod 10.244.9.1/24 fd00:244:9::1/64 10.244.9.2 fd00:244:9::2
  namespace endpoints 10.244.8.1/24 fd00:244:8::1/64 10.244.8.2 fd00:244:8::2
  namespace outside 192.0.2.2/24 fd00:c0::2/64 192.0.2.100 fd00:c0::100
  sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
  answer serve udp 53 10.244.1.16 10.244.2.14 fd00:244:1::16 fd00:244:2::14
  answer serve tcp 53 10.244.1.16 10.244.2.14
  answer take tcp 8080 10.244.1.11 10.244.1.12 10.244.2.11
  answer serve udp 5353 10.244.1.15 10.244.2.13 fd00:244:1::15 fd00:244:2::13
  answer serve udp 7777 10.244.1.12 10.244.2.16
  sleep 1
  # Waits until the kernel has gathered randomness. Until then, older kernels take thousands of instructions
  # for each random number.
  head -c 1 /dev/random >/dev/null
}

# load RULES: replaces all rules with these. Without rules there is no connection tracking either. The kernel
# looks for expired elements of kube-proxy's sets only once a day here. Once a second would take 30 million
# instructions more, and add them to whichever round trip is counted at that time.
load() {
  nft flush ruleset
  case $1 in
    none) ;;
    kube-proxy) sed 's/^[[:space:]]*timeout .*/&; gc-interval 1d/' test/fixtures/kube-proxy/town.nft | nft -f - ;;
    *) nft -j -f "$folder/$1.json" ;;
  esac
  [[ $1 != fast-path ]] || for family in "ip -1" "ip6 0"; do
    nft "add flowtable ${family% *} nft-proxy fast-path { hook ingress priority ${family#* }; devices = { pod, endpoints, outside }; }"
  done
}

# count RULES WAY FLOW NAMESPACE PROTOCOL FRONTEND PORT ENDPOINT PORT: without rules, the client connects to
# the endpoint itself. Bulk flows make fewer round trips, because one of 256 KiB takes as long as dozens of
# others.
count() {
  local rules=$1 way=$2 flow=$3 namespace=$4 protocol=$5 address=$6 port=$7 round_trips=$round_trips instructions
  [[ $flow != bulk ]] || round_trips=$((round_trips / 10))
  [[ $rules != none ]] || { address=$8 && port=$9; }
  conntrack -F 2>/dev/null
  instructions=$(ip netns exec "$namespace" "$folder/round-trips" "$flow" "$protocol" "$address" "$port" "$round_trips") ||
    { echo "kernels-instructions: $way, $flow, with the rules of $rules: failed" >&2 && exit 1; }
  printf '{"rules": "%s", "way": "%s", "flow": "%s", "instructions": %s}\n' "$rules" "$way" "$flow" "$instructions"
}

# count_all RULES: counts with Services dns/kube-dns, shop/frontend, shop/multi and games/arena of the town.
count_all() {
  local flow
  load "$1"
  for flow in new established; do
    count "$1" "UDP, ClusterIP" "$flow" pod udp 10.96.0.10 53 10.244.1.16 53
    count "$1" "UDP, ClusterIP, IPv6" "$flow" pod udp fd00:10:96::a 53 fd00:244:1::16 53
    count "$1" "TCP, ClusterIP" "$flow" pod tcp 10.96.0.10 53 10.244.1.16 53
    count "$1" "UDP, NodePort from outside, masqueraded" "$flow" outside udp 192.0.2.2 30053 10.244.1.15 5353
    count "$1" "UDP, NodePort from outside, masqueraded, IPv6" "$flow" outside udp fd00:c0::2 30053 fd00:244:1::15 5353
  done
  count "$1" "UDP, ClusterIP with session affinity" new pod udp 10.96.5.1 7777 10.244.1.12 7777
  count "$1" "TCP, ClusterIP, 256 KiB" bulk pod tcp 10.96.1.1 80 10.244.1.11 8080
  # Switches segmentation offload off, as on a network card without it.
  ip -n pod link set eth0 gso_max_segs 1
  count "$1" "TCP, ClusterIP, 256 KiB in packets of 1,500 bytes" bulk pod tcp 10.96.1.1 80 10.244.1.11 8080
  ip -n pod link set eth0 gso_max_segs 65535
}

# A retransmitted TCP segment means that a packet was lost.
check_retransmissions() {
  local name
  for name in pod endpoints outside; do
    ip netns exec "$name" nstat -asz TcpRetransSegs | awk '$1 == "TcpRetransSegs" && $2 > 0 { exit 1 }' ||
      { echo "kernels-instructions: TCP segments of the namespace $name were lost" >&2 && exit 1; }
  done
}

# count_round ROUND-TRIPS RULES...
count_round() {
  local rules
  round_trips=$1
  for rules in "${@:2}"; do count_all "$rules"; done
}

make_town
count_round $((ROUND_TRIPS / 10)) "$@" >/dev/null
for ((round = 0; round < ROUNDS; round++)); do
  count_round "$ROUND_TRIPS" "$@" >>/tmp/counts
done
check_retransmissions
printf '{"kernel": "%s", "nft": "%s", "counts": [%s]}' "$(uname -r)" "$(nft --version)" "$(paste -sd, /tmp/counts)"
