#!/usr/bin/env bash
# in-namespace.sh CMD...: runs CMD in network, mount and process namespaces of its own, with the tools from
# get-tools.sh and node_modules/.bin first in PATH. CMD's network namespaces (`ip netns add`), rules and
# processes vanish when it ends; the host's do not change. An ordinary user becomes root in a user namespace
# first. Exit status: that of CMD, or 125 if the namespaces cannot be created.
set -euo pipefail

project=$(cd "${BASH_SOURCE[0]%/*}/.." && pwd)

if [[ ${1-} == --inside ]]; then
  shift
  # `ip netns` keeps its names under /run, so a private /run hides the host's.
  mount -t tmpfs tmpfs /run
  ip link set lo up
  # Without exec, this shell remains process 1 and reaps processes. When it ends, the kernel kills all others.
  "$@"
  exit
fi

(($#)) || { echo "usage: in-namespace.sh CMD..." >&2; exit 125; }
"$project/scripts/get-tools.sh" || exit 125
export PATH=$project/.cache/tools/bin:$project/node_modules/.bin:$PATH:/usr/local/sbin:/usr/sbin:/sbin
export NFT_PROXY_PRIVATE_NAMESPACE=1

new=(unshare --net --mount --pid --fork --mount-proc)
((EUID == 0)) || new=(unshare --map-root-user --net --mount --pid --fork --mount-proc)
if ! reason=$("${new[@]}" true 2>&1); then
  echo "in-namespace: cannot make private namespaces: $reason" >&2
  echo "in-namespace: run as root, or let users make namespaces (sysctl kernel.unprivileged_userns_clone, user.max_user_namespaces, and on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0)" >&2
  exit 125
fi

# unshare ignores SIGTERM and SIGINT while it waits. The trap turns them into SIGKILL, which --kill-child
# passes on. --pdeathsig does the same if this shell itself is killed.
setpriv --pdeathsig KILL "${new[@]}" --kill-child "${BASH_SOURCE[0]}" --inside "$@" <&0 &
child=$!
trap 'kill -KILL "$child" 2>/dev/null' TERM INT HUP
wait "$child"
