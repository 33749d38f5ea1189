#!/usr/bin/env bash
# get-test-programs.sh: fetches what some tests run, before they run: their network namespaces reach no mirror. Earlier
# versions of nft-proxy itself, and Debian's programs: the nft of Debian 12 and the newest one, which read and write our
# tables, the conntrack of both, both kinds of iptables, Prometheus, and kubectl.
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
