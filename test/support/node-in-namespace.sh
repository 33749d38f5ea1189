#!/usr/bin/env bash
# node-in-namespace.sh ARG...: runs node in new network and mount namespaces. The script replaces itself with
# node, so that the caller's signals and channel reach node.
set -euo pipefail

if [[ ${1-} == --inside ]]; then
  # `ip netns` keeps the names of namespaces under /run.
  mount -t tmpfs tmpfs /run
  ip link set lo up
  exec node "${@:2}"
fi
exec unshare --net --mount "${BASH_SOURCE[0]}" --inside "$@"
