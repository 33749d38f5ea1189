#!/usr/bin/env bash
# get-release.sh [cut-ranges|many-chains]: builds the bundle of an earlier version in .cache/releases and
# prints its path. Tests upgrade from this version. The packages in the bundle are those of its own lock file;
# the tools are this version's, which Node finds in node_modules above, and must be installed. Needs this
# repository's history. If the build fails, prints the reason and exits with 1.
set -euo pipefail

case ${1-} in
  # The last version with one endpoint list per frontend. An upgrade from it recreates both tables.
  "") commit=0f35c7c ;;
  # The last version in which explicit ports split port ranges, and which had a map of its own for ranges
  # without endpoints.
  cut-ranges) commit=ee93bc4 ;;
  # The last version with chains for each number of endpoints and timeout of session affinity, and with a chain
  # and a set for each list of source ranges.
  many-chains) commit=9cfb006 ;;
  *) echo "usage: get-release.sh [cut-ranges|many-chains]" >&2; exit 1 ;;
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
  (cd "$dir" && npm ci --omit=dev --ignore-scripts --no-audit --no-fund && node scripts/build.mjs && rm -rf node_modules) >&2
fi
echo "$dir/dist/nft-proxy.js"
