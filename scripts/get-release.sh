#!/usr/bin/env bash
# get-release.sh COMMIT: builds the bundle of an earlier commit into .cache/releases/COMMIT with the packages that are
# installed now, and prints its path. Needs this repository's history. Exit 1 with a reason when it cannot be built.
set -euo pipefail

(($# == 1)) || { echo "usage: get-release.sh COMMIT" >&2; exit 1; }
cd "${BASH_SOURCE[0]%/*}/.."
dir=$PWD/.cache/releases/$1
if [[ ! -f $dir/dist/nft-proxy.js ]]; then
  rm -rf "$dir"
  mkdir -p "$dir"
  git archive "$1" | tar -x -C "$dir" || { rm -rf "$dir"; echo "get-release: no commit $1 in this repository's history" >&2; exit 1; }
  ln -s "$PWD/node_modules" "$dir/node_modules"
  (cd "$dir" && node scripts/build.mjs) >&2
fi
echo "$dir/dist/nft-proxy.js"
