#!/bin/sh
# image-files.sh DIR: copies the files of the image from the running Debian 13 system to the empty folder DIR.
# These are node, nft, socat, env (which starts scripts) and prlimit (which starts nft), the libraries that
# they load, and node's own JavaScript, but no shell and no package manager.
# var/lib/dpkg/status.d, where vulnerability scanners look, lists the packages of these files; their copyright
# files are copied, too.
# Needs the packages nodejs, nftables and socat, and root.
set -eu

dest=${1:?usage: image-files.sh DIR}
programs="/usr/bin/env /usr/bin/prlimit /usr/bin/node /usr/sbin/nft /usr/bin/socat"

mkdir -p "$dest"
# As in Debian's merged /usr, programs and the dynamic linker can also be found by their old paths.
for link in bin sbin lib lib64; do
  mkdir -p "$dest/usr/$link"
  ln -sfn "usr/$link" "$dest/$link"
done
for folder in dev etc proc root run sys tmp usr/local/bin var/lib/dpkg/status.d; do mkdir -p "$dest/$folder"; done
chmod 1777 "$dest/tmp"
ln -sfn /run "$dest/var/run"

# Prints the path of every file, which may be a symbolic link.
list() {
  for program in $programs; do
    echo "$program"
    ldd "$program" | sed -nE 's/^.*=> (\/[^ ]+) .*$/\1/p; s/^[[:space:]]*(\/[^ ]+) .*$/\1/p'
  done
  # Debian's node reads some of its own modules (undici, the CommonJS lexer) from files whose paths are
  # compiled into it.
  grep -haoE '/usr/share/nodejs/[A-Za-z0-9@/._-]+\.js' /usr/lib/*/libnode.so.*
}

files=$(for file in $(list | sort -u); do
  echo "$file" | sed -E 's,^/(bin|sbin|lib|lib64)/,/usr/\1/,'
  readlink -f "$file"
done | sort -u)
for file in $files; do cp -a --parents "$file" "$dest"; done

# dpkg still lists some files by their paths from before the merge of /usr.
packages=$(for file in $files; do dpkg -S "$file" 2>/dev/null || dpkg -S "${file#/usr}"; done | cut -d: -f1 | sort -u)
for package in base-files $packages; do
  dpkg -s "$package" >"$dest/var/lib/dpkg/status.d/$package"
  cp -aL --parents "/usr/share/doc/$package/copyright" "$dest"
done
cp -a --parents /usr/lib/os-release /etc/os-release "$dest"
echo 'root:x:0:0:root:/root:/usr/sbin/nologin' >"$dest/etc/passwd"
echo 'root:x:0:' >"$dest/etc/group"
echo 'hosts: files dns' >"$dest/etc/nsswitch.conf"
