#!/usr/bin/env bash
# make-image-archive.sh ROOT IMAGE ARCH FILE: packs the root file system that make-image-root.sh made in ROOT into
# FILE, an archive as `docker save` writes it, without a container engine. IMAGE (NAME:TAG) is the name that
# containerd gives it when it loads the archive: `ctr -n k8s.io images import FILE`, or a file in
# `agent/images` of k3s and RKE2. ARCH is amd64 or arm64. The settings of the image are the Dockerfile's.
set -euo pipefail

root=${1:?usage: make-image-archive.sh ROOT IMAGE ARCH FILE} image=${2:?} arch=${3:?} file=${4:?}
[[ $image == *:* ]] || { echo "make-image-archive: not NAME:TAG: $image" >&2; exit 1; }
here=${BASH_SOURCE[0]%/*}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Same bytes for the same files.
tar --create --file "$work/layer.tar" --directory "$root" --sort=name --mtime=@0 --numeric-owner --owner=0 --group=0 .
layer=$(sha256sum "$work/layer.tar" | cut -d' ' -f1)
DOCKERFILE=$here/../Dockerfile ARCH=$arch LAYER=$layer IMAGE=$image WORK=$work node --input-type=module <<'NODE'
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";

const { DOCKERFILE, ARCH: architecture, LAYER, IMAGE, WORK } = process.env;
const [, last = ""] = readFileSync(DOCKERFILE, "utf8").split("FROM scratch\n");
const value = (instruction) => new RegExp(`^${instruction} (.*)$`, "m").exec(last)?.[1];
const env = [...last.matchAll(/^ENV (\w+)=(?:"(.*)"|(.*))$/gm)].map(([, name, quoted, bare]) => `${name}=${quoted ?? bare}`);
const config = JSON.stringify({
  architecture,
  os: "linux",
  created: "1970-01-01T00:00:00Z",
  config: { User: value("USER"), Env: env, Entrypoint: JSON.parse(value("ENTRYPOINT")), Cmd: JSON.parse(value("CMD")) },
  rootfs: { type: "layers", diff_ids: [`sha256:${LAYER}`] },
});
const name = `${createHash("sha256").update(config).digest("hex")}.json`;
writeFileSync(`${WORK}/${name}`, config);
writeFileSync(`${WORK}/manifest.json`, JSON.stringify([{ Config: name, RepoTags: [IMAGE], Layers: ["layer.tar"] }]));
NODE
tar --create --file "$file" --directory "$work" --sort=name --mtime=@0 --numeric-owner --owner=0 --group=0 \
  manifest.json layer.tar "$(cd "$work" && ls -- *[0-9a-f].json | grep -v manifest)"
