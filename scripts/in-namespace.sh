#!/usr/bin/env bash
# in-namespace.sh CMD...: runs CMD in network, mount and process namespaces of its own, with the tools from get-tools.sh
# and node_modules/.bin first in PATH. Network namespaces that CMD makes (`ip netns add`), its rules and its processes
# vanish with it; the host's stay as they are. As an ordinary user it becomes root of a user namespace first.
# Exit status: CMD's; 125 when the namespaces cannot be made.
set -euo pipefail

project=$(cd "${BASH_SOURCE[0]%/*}/.." && pwd)

if [[ ${1-} == --inside ]]; then
  shift
  # `ip netns` keeps its names under /run: a private one hides the host's.
  mount -t tmpfs tmpfs /run
  ip link set lo up
  # Not exec: this shell is process 1 and reaps; the kernel ends all the others with it.
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

# unshare ignores SIGTERM and SIGINT while it waits, so they are turned into the kill that --kill-child passes on;
# --pdeathsig does the same should this shell itself be killed.
setpriv --pdeathsig KILL "${new[@]}" --kill-child "${BASH_SOURCE[0]}" --inside "$@" <&0 &
child=$!
trap 'kill -KILL "$child" 2>/dev/null' TERM INT HUP
wait "$child"
