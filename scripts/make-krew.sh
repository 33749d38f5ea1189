#!/usr/bin/env bash
# make-krew.sh VERSION BASE_URL DIRECTORY: packs the kubectl plugin and writes its krew manifest to DIRECTORY.
# Needs dist/nft-proxy.js (npm run build). Users will download the archive from BASE_URL.
set -euo pipefail
version=$1 base_url=$2 directory=$3
cd "$(dirname "$0")/.."
archive=$directory/nft-proxy-kubectl.tar.gz
tar -czf "$archive" -C "$PWD" --transform 's,nft-proxy.js$,nft-proxy.mjs,;s,.*/,,' \
  deploy/krew/kubectl-nft_proxy dist/nft-proxy.js dist/THIRD_PARTY_LICENSES LICENSE
sha256=$(sha256sum "$archive" | cut -d' ' -f1)
homepage=$(node -p 'require("./package.json").homepage')
cat >"$directory/nft-proxy.yaml" <<MANIFEST
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: nft-proxy
spec:
  version: v$version
  homepage: $homepage
  shortDescription: Inspect the nft-proxy of a cluster's nodes
  description: |
    kubectl nft-proxy fleet                     one line for each node, the worst first
    kubectl nft-proxy explain [--node NAME] ... the outcome of a connection, on that node
    kubectl nft-proxy diff [--node NAME]        the kernel against the desired state, on that node
  caveats: |
    Needs kubectl and Node.js 20 or newer. To list nodes and pods, to get pods/proxy and to create pods/exec must be allowed.
  platforms:
    - selector:
        matchExpressions:
          - { key: os, operator: In, values: [linux, darwin] }
      uri: $base_url/nft-proxy-kubectl.tar.gz
      sha256: $sha256
      bin: kubectl-nft_proxy
      files:
        - { from: "*", to: . }
MANIFEST
