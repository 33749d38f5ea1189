#!/usr/bin/env bash
# kernels.sh [RELEASE...]: runs the tests of vitest.kernels.config.ts on the cloud kernels of Debian releases,
# and prints a table of passed tests. The default is all releases: bullseye (5.10), bookworm (6.1), trixie
# (6.12) and sid. The kernels run in qemu without hardware virtualisation.
# Then it boots trixie's kernel again and counts the instructions of round trips
# (scripts/kernels-instructions.sh): without rules, with kube-proxy's, and with this checkout's, without and
# with the fast path.
# Needs Debian's apt, dpkg-deb, e2fsprogs, cpio and xz, some 3 GB in .cache, and a built bundle (npm run
# build); gcc to count. Needs no root. Takes 15 to 35 minutes for a kernel on 2 cores, and 3 minutes to count.
# Exits with 1 if a test failed, a kernel did not end, or a budget of scripts/instruction-results.mjs is
# exceeded.
# KERNELS_MINUTES limits the time of one kernel, 60 by default.
# KERNELS_TESTS selects test files by parts of their names, such as towns,affinity; all by default. If it
# contains "instructions", instructions are counted on each RELEASE. KERNELS_TESTS=instructions only counts.
# KERNELS_TRANSACTION names a file with another version's rules, as make_instructions dumps them. They are
# counted as "other".
set -euo pipefail

cd "${BASH_SOURCE[0]%/*}/.."
project=$PWD
source scripts/debian.sh
PATH=$PATH:/usr/sbin:/sbin
cache=$project/.cache/kernels
results=$cache/results
instructions=$cache/instructions
(($#)) || set -- bullseye bookworm trixie sid

fail() {
  echo "kernels: $1" >&2
  exit 1
}

# fetch RELEASE DIR PACKAGE...: unpacks the packages once.
fetch() {
  [[ -d $2/complete ]] || { rm -rf "$2" && unpack_packages "$1" "$2" "${@:3}" && mkdir "$2/complete"; } || fail "cannot fetch ${*:3}"
}

# The packages are unpacked, not installed, so this function does the work of their scripts.
make_guest() {
  local root=$cache/guest/root
  fetch trixie "$cache/guest" base-files bash coreutils dash findutils grep sed mawk util-linux mount kmod procps \
    iproute2 nftables conntrack socat nodejs perl-base
  for folder in bin sbin lib lib64; do [[ -e $root/$folder ]] || ln -s "usr/$folder" "$root/$folder"; done
  ln -sf mawk "$root/usr/bin/awk"
  ln -sf dash "$root/usr/bin/sh"
  echo 'root:x:0:0:root:/root:/bin/bash' >"$root/etc/passwd"
  echo '127.0.0.1 localhost' >"$root/etc/hosts"
  mkdir -p "$root"/{proc,sys,dev,run,tmp,project}
  install -m 0755 scripts/kernels-guest.sh "$root/init"
}

# Puts the project and every kernel's modules into one image, which no guest changes.
make_image() {
  local staging=$cache/staging release
  rm -rf "$staging"
  cp -a "$cache/guest/root" "$staging"
  cp -a package.json tsconfig.json vitest.kernels.config.ts dist schemas scripts src test node_modules "$staging/project/"
  for release; do
    mkdir -p "$staging/usr/lib/modules"
    cp -a "$(modules_of "$release")" "$staging/usr/lib/modules/"
  done
  [[ ! -d $instructions ]] || cp -a "$instructions" "$staging/"
  rm -f "$cache/root.img"
  mke2fs -q -t ext4 -d "$staging" -E root_owner=0:0 "$cache/root.img" 3G
  rm -rf "$staging"
}

modules_of() {
  local -a found=("$cache/kernel-$1"/root/{usr/,}lib/modules/*)
  for folder in "${found[@]}"; do [[ -d $folder ]] && echo "$folder" && return; done
  fail "no modules in the kernel package of $1"
}

# Debian's packages have the kernel in /boot, and newer ones (7.2) beside the modules.
kernel_of() {
  local file
  for file in "$cache/kernel-$1"/root/boot/vmlinuz-* "$(modules_of "$1")/vmlinuz"; do
    [[ -f $file ]] && echo "$file" && return
  done
  fail "no kernel in the package of $1"
}

# Makes an initramfs that mounts the image. It has busybox, and the modules that the cloud kernels need to
# mount it.
make_initramfs() {
  local release=$1 staging=$cache/initramfs modules version names name file
  modules=$(modules_of "$release")
  version=${modules##*/}
  rm -rf "$staging"
  mkdir -p "$staging"/{bin,modules,root,proc,sys,dev}
  cp "$cache/busybox/root/usr/bin/busybox" "$staging/bin/"
  depmod -b "${modules%%/lib/modules/*}" "$version" 2>/dev/null || fail "depmod failed for $version"
  : >"$staging/modules/order"
  for name in virtio_pci virtio_blk ext4; do
    while read -r _ file; do
      name=$(basename "${file%%.ko*}")
      [[ ! -e $staging/modules/$name.ko ]] || continue
      case $file in
        *.xz) xz -dc "$file" >"$staging/modules/$name.ko" ;;
        *) cp "$file" "$staging/modules/$name.ko" ;;
      esac
      echo "$name" >>"$staging/modules/order"
    done < <(modprobe -d "${modules%%/lib/modules/*}" -S "$version" --show-depends "$name" 2>/dev/null | grep '^insmod')
  done
  cat >"$staging/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev
for name in $(/bin/busybox cat /modules/order); do /bin/busybox insmod "/modules/$name.ko"; done
while [ ! -b /dev/vda ]; do /bin/busybox sleep 0.1; done
/bin/busybox mount -t ext4 /dev/vda /root
/bin/busybox mount --move /dev /root/dev
exec /bin/busybox switch_root /root /init
INIT
  chmod +x "$staging/init"
  (cd "$staging" && find . | cpio -o -H newc -R 0:0 --quiet) >"$cache/initramfs-$release"
}

# Makes the program for round trips, and the rules of the recorded town with this checkout.
make_instructions() {
  command -v gcc >/dev/null || fail "gcc is missing (packages gcc and libc6-dev); KERNELS_TESTS can choose tests without counting"
  mkdir -p "$instructions"
  gcc -O2 -static -o "$instructions/round-trips" test/bench/round-trips.c || fail "gcc cannot compile test/bench/round-trips.c"
  local -a dump=(node dist/nft-proxy.js dump --from test/fixtures/town/objects --hostname-override node-1
    --cluster-cidr 10.244.0.0/16,fd00:244::/32 --nodeport-addresses primary)
  "${dump[@]}" >"$instructions/nft-proxy.json"
  "${dump[@]}" --fast-path >"$instructions/fast-path.json"
  [[ -z ${KERNELS_TRANSACTION:-} ]] || cp "$KERNELS_TRANSACTION" "$instructions/other.json"
}

# run_tests RELEASE: uses two guest processors, for which qemu before version 10 is too slow.
run_tests() {
  boot "$1" "$1" "tests=${KERNELS_TESTS:-}" -accel tcg,thread=multi -smp 2
}

# count_instructions RELEASE: -icount advances the guest's clock by 1 ns (2^0) with each instruction, and
# needs one thread.
count_instructions() {
  local rules=none,kube-proxy,nft-proxy,fast-path
  [[ -z ${KERNELS_TRANSACTION:-} ]] || rules+=,other
  boot "instructions-$1" "$1" "instructions=$rules" -accel tcg,thread=single -icount shift=0,sleep=off -smp 1
}

# boot NAME RELEASE PARAMETER OPTION...: writes the guest's serial output to NAME.log, and its results to
# NAME.json. PARAMETER tells kernels-guest.sh what to do. This does not use KVM, because most build machines
# lack it. On machines that offer it only to guests with its own drivers (PVM), KVM opens, but Debian's
# kernels stop at their first AVX or BMI instruction.
boot() {
  local name=$1 release=$2 parameter=$3 kernel disk=$results/$1.disk
  kernel=$(kernel_of "$release")
  echo "kernels: $release, $(basename "$(modules_of "$release")"), $parameter" >&2
  truncate -s 4M "$disk"
  timeout "$((${KERNELS_MINUTES:-60} * 60))" env QEMU_MODULE_DIR="$(echo "$cache"/qemu/root/usr/lib/*/qemu)" \
    "$cache/qemu/bin/qemu-system-x86_64" -L "$cache/qemu/root/usr/share/seabios" -L "$cache/qemu/root/usr/share/qemu" \
    "${@:4}" -cpu Nehalem -m 3072 -nographic -nodefaults -no-reboot -serial "file:$results/$name.log" \
    -kernel "$kernel" -initrd "$cache/initramfs-$release" -append "console=ttyS0 panic=-1 quiet $parameter" \
    -drive "file=$cache/root.img,if=virtio,format=raw,snapshot=on" -drive "file=$disk,if=virtio,format=raw" </dev/null ||
    echo "kernels: $release did not end within ${KERNELS_MINUTES:-60} minutes" >&2
  tr -d '\0' <"$disk" >"$results/$name.json"
  rm "$disk"
}

for tool in mke2fs cpio xz depmod; do command -v "$tool" >/dev/null || fail "$tool is missing (packages e2fsprogs, cpio, xz-utils, kmod)"; done
[[ -f dist/nft-proxy.js ]] || fail "no bundle: npm run build"
mkdir -p "$results"
rm -rf "$instructions"

# The releases whose instructions are counted.
counted=()
case ,${KERNELS_TESTS:-}, in
  ,,) [[ " $* " != *" trixie "* ]] || counted=(trixie) ;;
  *,instructions,*) counted=("$@") ;;
esac
((${#counted[@]} == 0)) || make_instructions

fetch trixie "$cache/qemu" qemu-system-x86
[[ -x $cache/qemu/bin/qemu-system-x86_64 ]] || wrap_program "$cache/qemu" qemu-system-x86_64
fetch trixie "$cache/busybox" busybox-static
for release; do fetch "$release" "$cache/kernel-$release" linux-image-cloud-amd64; done
make_guest
for release; do make_initramfs "$release"; done
make_image "$@"

status=0
if [[ ${KERNELS_TESTS:-} != instructions ]]; then
  for release; do run_tests "$release"; done
  node scripts/kernel-results.mjs "$results" "$@" || status=1
fi
if ((${#counted[@]})); then
  for release in "${counted[@]}"; do count_instructions "$release"; done
  node scripts/instruction-results.mjs "$results" "${counted[@]}" || status=1
fi
exit "$status"
