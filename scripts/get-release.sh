#!/usr/bin/env bash
# get-release.sh [cut-ranges]: builds the bundle of an earlier version that upgrades are tried from, with the packages of its own
# lock file, into .cache/releases, and prints its path. Needs this repository's history. Exit 1 with a reason when it cannot be
# built.
set -euo pipefail

case ${1-} in
  # The last one with the layout of one endpoint list per frontend: from it, both tables are made anew.
  "") commit=0f35c7c ;;
  # The last one in which explicit ports cut ranges of ports, and ranges without endpoints were in a map of their own.
  cut-ranges) commit=ee93bc4 ;;
  *) echo "usage: get-release.sh [cut-ranges]" >&2; exit 1 ;;
esac

cd "${BASH_SOURCE[0]%/*}/.."
dir=$PWD/.cache/releases/$commit
mkdir -p "${dir%/*}"
exec 9>"$dir.lock"
flock 9
if [[ ! -f $dir/dist/nft-proxy.js ]]; then
  rm -rf "$dir"
  mkdir -p "$dir"
  # In a container, the repository may belong to another user.
  git -c safe.directory="$PWD" archive "$commit" | tar -x -C "$dir" || { rm -rf "$dir"; echo "get-release: no commit $commit in this repository's history" >&2; exit 1; }
  (cd "$dir" && npm ci --ignore-scripts --no-audit --no-fund && node scripts/build.mjs && rm -rf node_modules) >&2
fi
echo "$dir/dist/nft-proxy.js"
