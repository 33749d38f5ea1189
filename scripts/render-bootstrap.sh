#!/usr/bin/env bash
# render-bootstrap.sh KUBECTL PLATFORM IMAGE [POD-CIDRS]: prints what makes a new cluster of k3s, rke2 or talos
# start with nft-proxy: for k3s and RKE2 the manifests for a file in `server/manifests`, for Talos a patch of
# the machine configuration. IMAGE is NAME:TAG or NAME@sha256:DIGEST. POD-CIDRS is one CIDR for each family,
# separated by a comma; without it, the platform's default.
set -euo pipefail

usage() {
  echo "usage: render-bootstrap.sh KUBECTL k3s|rke2|talos IMAGE [POD-CIDRS]" >&2
  exit 2
}
[[ $# == 3 || $# == 4 ]] || usage
kubectl=$1 platform=$2 image=$3 cidrs=${4:-}
[[ $platform =~ ^(k3s|rke2|talos)$ ]] || usage
[[ $cidrs =~ ^[0-9a-fA-F.:/,]*$ ]] || { echo "render-bootstrap: not CIDRs: $cidrs" >&2; exit 1; }
if [[ $image =~ ^([^@]+)@(sha256:[0-9a-f]{64})$ ]]; then
  reference="newName: ${BASH_REMATCH[1]}, digest: \"${BASH_REMATCH[2]}\""
elif [[ $image =~ ^([^@]+):([A-Za-z0-9_][A-Za-z0-9_.-]*)$ ]]; then
  reference="newName: ${BASH_REMATCH[1]}, newTag: \"${BASH_REMATCH[2]}\""
else
  echo "render-bootstrap: neither NAME:TAG nor NAME@sha256:DIGEST: $image" >&2
  exit 1
fi

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -R "${BASH_SOURCE[0]%/*}/../deploy/." "$copy"
[[ -z $cidrs ]] || sed -i "s|clusterCIDR: .*|clusterCIDR: $cidrs|" "$copy/overlays/$platform/kustomization.yaml"
mkdir "$copy/own"
cat >"$copy/own/kustomization.yaml" <<KUSTOMIZATION
resources: [../overlays/$platform]
images: [{ name: ghcr.io/nft-proxy/nft-proxy, $reference }]
KUSTOMIZATION
manifests=$("$kubectl" kustomize "$copy/own")

case $platform in
  talos)
    echo '# A patch of the machine configuration of control plane nodes: talosctl gen config --config-patch-control-plane @FILE'
    printf 'cluster:\n  proxy:\n    disabled: true\n  inlineManifests:\n    - name: nft-proxy\n      contents: |\n'
    sed -E 's/^(.+)/        \1/' <<<"$manifests"
    ;;
  *)
    echo "# /var/lib/rancher/$platform/server/manifests/nft-proxy.yaml of one server, while every server has"
    echo "# disable-kube-proxy: true in /etc/rancher/$platform/config.yaml"
    printf '%s\n' "$manifests"
    ;;
esac
