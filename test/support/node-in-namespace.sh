#!/usr/bin/env bash
# node-in-namespace.sh ARG...: runs node in new network and mount namespaces. It replaces itself, so that the process
# that the caller started is node: signals and the caller's channel reach it.
set -euo pipefail

if [[ ${1-} == --inside ]]; then
  # `ip netns` keeps its names under /run.
  mount -t tmpfs tmpfs /run
  ip link set lo up
  exec node "${@:2}"
fi
exec unshare --net --mount "${BASH_SOURCE[0]}" --inside "$@"
