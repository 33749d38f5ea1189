#!/usr/bin/env bash
# get-test-programs.sh: fetches programs that some tests run. It must run before the tests, whose network
# namespaces reach no mirror. It builds earlier versions of nft-proxy and fetches Debian's programs: nft and
# conntrack of Debian 12 and of sid, both kinds of iptables, Prometheus, and kubectl.
set -euo pipefail

cd "${BASH_SOURCE[0]%/*}"
./get-release.sh >/dev/null
./get-release.sh cut-ranges >/dev/null
for program in "bookworm nftables nft" "sid nftables nft" "bookworm conntrack conntrack" \
  "sid conntrack conntrack" "trixie iptables xtables-nft-multi" "trixie iptables xtables-legacy-multi" \
  "trixie prometheus prometheus" "sid kubectl kubectl"; do
  read -r release package name <<<"$program"
  ./get-debian-program.sh "$release" "$package" "$name" >/dev/null
done
