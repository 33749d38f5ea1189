#!/usr/bin/env bash
# make-image-root.sh DIR: makes the root file system of the Dockerfile in DIR, without a container engine.
# mmdebstrap makes a Debian 13 in DIR-build with the packages that the Dockerfile installs, and image-files.sh
# copies the image's files from there. Needs root, mmdebstrap and a built bundle (npm run build).
# DEBIAN_MIRROR overrides mmdebstrap's mirror. If DIR exists already, only its bundle is replaced.
set -euo pipefail

root=${1:?usage: make-image-root.sh DIR}
cd "${BASH_SOURCE[0]%/*}/.."
packages=$(sed -nE 's/.*apt-get install --yes --no-install-recommends (.*[^ ]) *\\$/\1/p' Dockerfile)

if [[ ! -x $root/usr/bin/node ]]; then
  mmdebstrap --variant=minbase --include="${packages// /,}" trixie "$root-build" ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"}
  install -m 0755 scripts/image-files.sh "$root-build/tmp/"
  chroot "$root-build" sh /tmp/image-files.sh /image
  mv "$root-build/image" "$root"
fi
install -D -m 0755 dist/nft-proxy.js "$root/usr/local/lib/nft-proxy/nft-proxy.mjs"
install -D -m 0644 dist/THIRD_PARTY_LICENSES "$root/usr/share/doc/nft-proxy/THIRD_PARTY_LICENSES"
install -D -m 0644 LICENSE "$root/usr/share/doc/nft-proxy/LICENSE"
ln -sf /usr/local/lib/nft-proxy/nft-proxy.mjs "$root/usr/local/bin/nft-proxy"
