#!/usr/bin/env bash
# get-test-programs.sh: fetches programs that some tests run. It must run before the tests, whose network
# namespaces reach no mirror. It builds earlier versions of nft-proxy and fetches Debian's programs: nft of
# Debian 12 and of sid, both kinds of iptables, Prometheus, and kubectl. It does all of this at the same time,
# because each part mostly waits for the network.
set -euo pipefail

cd "${BASH_SOURCE[0]%/*}"
jobs=()
in_background() {
  "$@" >/dev/null &
  jobs+=($!)
}

in_background ./get-release.sh
in_background ./get-release.sh cut-ranges
in_background ./get-release.sh many-chains
for program in "bookworm nftables nft" "sid nftables nft" "trixie iptables xtables-nft-multi" \
  "trixie iptables xtables-legacy-multi" "trixie prometheus prometheus" "sid kubectl kubectl"; do
  read -r release package name <<<"$program"
  in_background ./get-debian-program.sh "$release" "$package" "$name"
done
in_background ./get-tools.sh
status=0
for job in "${jobs[@]}"; do wait "$job" || status=1; done
exit "$status"
