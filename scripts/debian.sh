# Functions that fetch Debian packages, to be sourced. They do not change the system and do not need root, but
# need Debian's apt and dpkg-deb. A function that fails writes the reason to standard error and returns 1.

# Prints the machine's own Debian mirror, taken from its apt sources.
debian_mirror() {
  local mirror
  mirror=$(grep -rhsE '^(URIs:|deb )' /etc/apt/sources.list /etc/apt/sources.list.d | grep -i debian | grep -vi security |
    sed -E 's/^(URIs:|deb( \[[^]]*\])?)[[:space:]]*//' | awk 'NR == 1 { print $1 }')
  [[ -n $mirror ]] || { echo "no Debian mirror in this machine's apt sources" >&2; return 1; }
  echo "$mirror"
}

# unpack_packages RELEASE DIR PACKAGE...: downloads the packages and their dependencies from that Debian
# release and unpacks them into DIR/root. apt gets a separate state without installed packages, so it also
# downloads the C library.
unpack_packages() {
  local release=$1 dir=$2 mirror keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  shift 2
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || { echo "no Debian apt here to fetch $* with" >&2; return 1; }
  mirror=$(debian_mirror) || return 1
  [[ -r $keyring ]] || { echo "$keyring is missing (package debian-archive-keyring)" >&2; return 1; }
  mkdir -p "$dir"/apt/{lists,cache/archives}/partial "$dir/root"
  : >"$dir/apt/status"
  printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: %s\n' "$mirror" "$release" "$keyring" >"$dir/apt/debian.sources"
  # Check-Valid-Until=false accepts a mirror that was not updated for two weeks. apt still checks signatures.
  local -a private=(
    -qq -o "Dir::Etc::sourcelist=$dir/apt/debian.sources" -o Dir::Etc::sourceparts=/dev/null
    -o "Dir::State::Lists=$dir/apt/lists" -o "Dir::State::status=$dir/apt/status" -o "Dir::Cache=$dir/apt/cache"
    -o Acquire::Languages=none -o Acquire::Retries=3 -o Acquire::Check-Valid-Until=false -o APT::Update::Error-Mode=any
    -o Debug::NoLocking=1 -o APT::Sandbox::User=root
  )
  echo "fetching $* of Debian $release for this project from $mirror" >&2
  apt-get "${private[@]}" update >&2 || { echo "apt-get update against $mirror failed" >&2; return 1; }
  apt-get "${private[@]}" --no-install-recommends --download-only -y install "$@" >&2 || { echo "cannot download $* from $mirror" >&2; return 1; }
  local deb
  for deb in "$dir"/apt/cache/archives/*.deb; do dpkg-deb -x "$deb" "$dir/root" || return 1; done
  rm -rf "$dir/apt"
}

# wrap_program DIR NAME: writes DIR/bin/NAME, a script that runs the program of that name in DIR/root with the
# C library and shared libraries there. DIR can be moved.
wrap_program() {
  local dir=$1 name=$2 program ld
  # The program may be a symbolic link: socat is a link to socat1.
  program=$(cd "$dir/root" && find usr -path "*bin/*" -name "$name" ! -type d | head -n 1)
  # Releases before the merge of /usr (bookworm) keep the C library in /lib.
  ld=$(cd "$dir/root" && find . -path './usr/lib/*-linux-*/ld-linux*.so.*' -o -path './lib/*-linux-*/ld-linux*.so.*' | head -n 1)
  [[ -n $program && -n $ld ]] || { echo "the fetched packages do not contain $name" >&2; return 1; }
  local triplet
  triplet=$(basename "${ld%/*}")
  mkdir -p "$dir/bin"
  printf '#!/bin/sh\nroot=${0%%/*}/../root\nexec "$root/%s" --library-path "$root/lib/%s:$root/usr/lib/%s" "$root/%s" "$@"\n' \
    "${ld#./}" "$triplet" "$triplet" "$program" >"$dir/bin/$name"
  chmod +x "$dir/bin/$name"
}
