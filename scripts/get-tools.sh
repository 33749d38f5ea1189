#!/usr/bin/env bash
# Puts nft, ip and conntrack into .cache/tools/bin, without touching the system and without being root.
#
# A tool that the system has is linked; one that it lacks is downloaded from the machine's own Debian mirror (release
# trixie), unpacked and run with its own C library. nft 1.0.6 (bookworm) cannot load our JSON, so the system's nft
# counts only if it accepts a map with concatenated values and a dynamic map; trixie's 1.1.3 does.
# Needs, when something is missing: Debian's apt and dpkg-deb. Exit 1 with a reason when a tool cannot be had.
set -euo pipefail

tools=$(cd "${BASH_SOURCE[0]%/*}/.." && pwd)/.cache/tools
bin=$tools/bin
if [[ -x $bin/nft && -x $bin/ip && -x $bin/conntrack ]]; then exit 0; fi

fail() {
  echo "get-tools: $1" >&2
  exit 1
}

# The feature check runs in a network namespace of its own: it needs no root there and sees no rules of the host.
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

debian_mirror() {
  grep -rhsE '^(URIs:|deb )' /etc/apt/sources.list /etc/apt/sources.list.d | grep -i debian | grep -vi security |
    sed -E 's/^(URIs:|deb( \[[^]]*\])?)[[:space:]]*//' | awk 'NR == 1 { print $1 }'
}

# Downloads the packages named and all that they need into $new/root. apt gets state of its own with no package
# installed, so that it resolves the C library too.
unpack_packages() {
  local mirror keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null ||
    fail "no Debian apt here to fetch $* with; install nft 1.1.3 or newer, iproute2 and conntrack yourself"
  mirror=$(debian_mirror) || true
  [[ -n $mirror ]] || fail "no Debian mirror in this machine's apt sources to fetch $* from; install them yourself (nft 1.1.3 or newer)"
  [[ -r $keyring ]] || fail "$keyring is missing (package debian-archive-keyring)"
  mkdir -p "$new"/apt/{lists,cache/archives}/partial "$new/root"
  : >"$new/apt/status"
  printf 'Types: deb\nURIs: %s\nSuites: trixie\nComponents: main\nSigned-By: %s\n' "$mirror" "$keyring" >"$new/apt/trixie.sources"
  local -a private=(
    -qq -o "Dir::Etc::sourcelist=$new/apt/trixie.sources" -o Dir::Etc::sourceparts=/dev/null
    -o "Dir::State::Lists=$new/apt/lists" -o "Dir::State::status=$new/apt/status" -o "Dir::Cache=$new/apt/cache"
    -o Acquire::Languages=none -o Acquire::Retries=3 -o APT::Update::Error-Mode=any -o Debug::NoLocking=1 -o APT::Sandbox::User=root
  )
  echo "get-tools: fetching $* for this project from $mirror" >&2
  apt-get "${private[@]}" update >&2 || fail "apt-get update against $mirror failed"
  apt-get "${private[@]}" --no-install-recommends --download-only -y install "$@" >&2 || fail "cannot download $* from $mirror"
  local deb
  for deb in "$new"/apt/cache/archives/*.deb; do dpkg-deb -x "$deb" "$new/root"; done
}

# A script beside the unpacked root that runs one of its programs with its own libraries; moves with the project.
wrap() {
  local name=$1 program ld
  program=$(cd "$new/root" && find usr -path "*bin/*" -name "$name" -type f | head -n 1)
  ld=$(cd "$new/root" && find usr/lib -path '*-linux-*' -name 'ld-linux*.so.*' | head -n 1)
  [[ -n $program && -n $ld ]] || fail "the packages fetched hold no $name"
  printf '#!/bin/sh\nroot=${0%%/*}/../root\nexec "$root/%s" --library-path "$root/%s" "$root/%s" "$@"\n' \
    "$ld" "${ld%/*}" "$program" >"$new/bin/$name"
  chmod +x "$new/bin/$name"
}

mkdir -p "$tools"
exec 9>"$tools/lock"
flock 9
if [[ -x $bin/nft && -x $bin/ip && -x $bin/conntrack ]]; then exit 0; fi

new=$tools/new
rm -rf "$new"
mkdir -p "$new/bin"
trap 'rm -rf "$new"' EXIT

PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
declare -A package=([nft]=nftables [ip]=iproute2 [conntrack]=conntrack)
missing=()
packages=()
for name in nft ip conntrack; do
  if found=$(command -v "$name") && [[ -x $found ]] && { [[ $name != nft ]] || nft_loads_our_json "$found"; }; then
    ln -s "$found" "$new/bin/$name"
  else
    missing+=("$name")
    packages+=("${package[$name]}")
  fi
done

if ((${#missing[@]})); then
  unpack_packages "${packages[@]}"
  for name in "${missing[@]}"; do wrap "$name"; done
fi
for name in nft ip conntrack; do
  "$new/bin/$name" --version >/dev/null 2>&1 || "$new/bin/$name" -V >/dev/null 2>&1 || fail "the $name fetched does not start"
done
rm -rf "$tools/root" "$bin"
if [[ -d $new/root ]]; then mv "$new/root" "$tools/root"; fi
mv "$new/bin" "$bin"
