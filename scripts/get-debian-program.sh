#!/usr/bin/env bash
# get-debian-program.sh RELEASE PACKAGE PROGRAM: fetches a program of a Debian release (bookworm, trixie, sid)
# into .cache/debian/RELEASE-PACKAGE, and prints the path of a script that runs it. Does not change the system
# and does not need root. On failure, prints the reason and exits with 1.
set -euo pipefail

(($# == 3)) || { echo "usage: get-debian-program.sh RELEASE PACKAGE PROGRAM" >&2; exit 1; }
release=$1 package=$2 program=$3
project=$(cd "${BASH_SOURCE[0]%/*}/.." && pwd)
source "$project/scripts/debian.sh"
dir=$project/.cache/debian/$release-$package

mkdir -p "$dir"
exec 9>"$dir.lock"
flock 9
if [[ ! -x $dir/bin/$program ]]; then
  [[ -d $dir/complete ]] || { rm -rf "$dir" && unpack_packages "$release" "$dir" "$package" && mkdir "$dir/complete"; }
  wrap_program "$dir" "$program"
fi
echo "$dir/bin/$program"
