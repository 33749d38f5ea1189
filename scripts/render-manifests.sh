#!/usr/bin/env bash
# render-manifests.sh KUBECTL IMAGE FOLDER: writes FOLDER/nft-proxy-OVERLAY.yaml for every overlay, with IMAGE
# (NAME@sha256:DIGEST) in place of the tag. The control plane's address in them is 192.0.2.1, from
# control-plane.env.example. Users must replace it before they apply the manifests.
set -euo pipefail

kubectl=$1 image=$2 folder=$3
[[ $image =~ ^([^@]+)@(sha256:[0-9a-f]{64})$ ]] || { echo "render-manifests: not NAME@sha256:DIGEST: $image" >&2; exit 1; }
name=${BASH_REMATCH[1]} digest=${BASH_REMATCH[2]}

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -R "${BASH_SOURCE[0]%/*}/../deploy/." "$copy"
mv "$copy/overlays/explicit-control-plane/control-plane.env.example" "$copy/overlays/explicit-control-plane/control-plane.env"
mkdir -p "$folder" "$copy/release"

version=$(sed -nE 's/^  "version": "(.*)",$/\1/p' "${BASH_SOURCE[0]%/*}/../package.json")
for overlay in kubeadm explicit-control-plane dual-stack k3s rke2 talos cleanup; do
  cat >"$copy/release/kustomization.yaml" <<KUSTOMIZATION
resources: [../overlays/$overlay]
labels: [{ includeTemplates: true, pairs: { app.kubernetes.io/version: $version } }]
images: [{ name: ghcr.io/nft-proxy/nft-proxy, newName: $name, digest: "$digest" }]
KUSTOMIZATION
  "$kubectl" kustomize "$copy/release" >"$folder/nft-proxy-$overlay.yaml"
done
