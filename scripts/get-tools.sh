#!/usr/bin/env bash
# Puts nft, ip, conntrack and socat into .cache/tools/bin. Does not change the system and does not need root.
#
# Tools of the system are linked. Missing tools are downloaded from the machine's own Debian mirror (release
# trixie), unpacked and run with their own C library. nft 1.0.6 (bookworm) cannot load our JSON, so the
# system's nft is used only if it accepts a map with concatenated values and a dynamic map; trixie's 1.1.3
# does.
# Needs Debian's apt and dpkg-deb if a tool is missing. If a tool cannot be fetched, prints the reason and
# exits with 1.
set -euo pipefail

project=$(cd "${BASH_SOURCE[0]%/*}/.." && pwd)
source "$project/scripts/debian.sh"
tools=$project/.cache/tools
bin=$tools/bin
if [[ -x $bin/nft && -x $bin/ip && -x $bin/conntrack && -x $bin/socat ]]; then exit 0; fi

fail() {
  echo "get-tools: $1" >&2
  exit 1
}

# The feature check runs in a network namespace of its own, where it needs no root and sees no rules of the
# host.
nft_loads_our_json() {
  local -a private=(unshare -n)
  ((EUID == 0)) || private=(unshare -r -n)
  "${private[@]}" "$1" -c -j -f - >/dev/null 2>&1 <<'JSON'
{"nftables": [
  {"add": {"table": {"family": "ip", "name": "feature-check"}}},
  {"add": {"map": {"family": "ip", "table": "feature-check", "name": "concatenated",
    "type": ["ipv4_addr", "inet_service"], "map": ["ipv4_addr", "inet_service"]}}},
  {"add": {"map": {"family": "ip", "table": "feature-check", "name": "dynamic",
    "type": "ipv4_addr", "map": "classid", "flags": ["timeout", "dynamic"], "size": 16}}}
]}
JSON
}

mkdir -p "$tools"
exec 9>"$tools/lock"
flock 9
if [[ -x $bin/nft && -x $bin/ip && -x $bin/conntrack && -x $bin/socat ]]; then exit 0; fi

new=$tools/new
rm -rf "$new"
mkdir -p "$new/bin"
trap 'rm -rf "$new"' EXIT

PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
declare -A package=([nft]=nftables [ip]=iproute2 [conntrack]=conntrack [socat]=socat)
missing=()
packages=()
for name in nft ip conntrack socat; do
  if found=$(command -v "$name") && [[ -x $found ]] && { [[ $name != nft ]] || nft_loads_our_json "$found"; }; then
    ln -s "$found" "$new/bin/$name"
  else
    missing+=("$name")
    packages+=("${package[$name]}")
  fi
done

if ((${#missing[@]})); then
  unpack_packages trixie "$new" "${packages[@]}" ||
    fail "cannot fetch ${packages[*]}; install nft 1.1.3 or newer, iproute2, conntrack and socat yourself"
  for name in "${missing[@]}"; do wrap_program "$new" "$name" || fail "the packages fetched hold no $name"; done
fi
for name in nft ip conntrack socat; do
  "$new/bin/$name" --version >/dev/null 2>&1 || "$new/bin/$name" -V >/dev/null 2>&1 || fail "the $name fetched does not start"
done
rm -rf "$tools/root" "$bin"
if [[ -d $new/root ]]; then mv "$new/root" "$tools/root"; fi
mv "$new/bin" "$bin"
