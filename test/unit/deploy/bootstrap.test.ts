import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { V1DaemonSet } from "@kubernetes/client-node";
import { execaSync } from "execa";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { resolveOptions } from "../../../src/config/resolve.ts";
import { debianProgram } from "../../support/debian-program.ts";
import { manifestFaults } from "../../support/kubernetes-schema.ts";
import { type Manifest, parseManifests } from "../../support/kustomize.ts";
import { DEPLOY } from "../../support/overlays.ts";

const SCRIPTS = join(DEPLOY, "../scripts");
const KUBECTL = debianProgram("sid", "kubectl", "kubectl");
const IMAGE = "registry.example:5000/nft-proxy:0.1.0";

function render(...args: string[]) {
  const script = join(SCRIPTS, "render-bootstrap.sh");
  return execaSync(script, [KUBECTL, ...args], { reject: false });
}

/** The manifests in what the script prints for a platform. */
function manifestsOf(platform: string, output: string): Manifest[] {
  if (platform !== "talos") return parseManifests(output);
  const { cluster } = parse(output);
  expect(cluster.proxy).toEqual({ disabled: true });
  expect(cluster.inlineManifests).toHaveLength(1);
  return parseManifests(cluster.inlineManifests[0].contents);
}

describe.each([
  ["k3s", "10.42.0.0/16"],
  ["rke2", "10.42.0.0/16"],
  ["talos", "10.244.0.0/16"],
])("the bootstrap manifests of %s", (platform, cidr) => {
  test("are what the API server takes, with the image and the platform's pod CIDR", () => {
    const manifests = manifestsOf(platform, render(platform, IMAGE).stdout);
    expect(manifests.flatMap(manifestFaults)).toEqual([]);
    const daemonSet = manifests.find(({ kind }) => kind === "DaemonSet") as unknown as V1DaemonSet;
    expect(daemonSet.spec?.template.spec?.containers.map(({ image }) => image)).toEqual([IMAGE]);
    expect(clusterCidr(manifests)).toBe(cidr);
  });

  test("have the pod CIDRs of two families if they are named", () => {
    const manifests = manifestsOf(platform, render(platform, IMAGE, "10.1.0.0/16,fd00:1::/56").stdout);
    expect(clusterCidr(manifests)).toBe("10.1.0.0/16,fd00:1::/56");
  });
});

function clusterCidr(manifests: readonly Manifest[]): string {
  const config = manifests.find(
    ({ kind, metadata }) => kind === "ConfigMap" && metadata.name === "nft-proxy",
  );
  const configText = (config?.data as Record<string, string> | undefined)?.["config.yaml"] ?? "";
  expect(resolveOptions({ configText }).warnings).toEqual([]);
  return parse(configText).clusterCIDR;
}

test.each([
  [["kops", IMAGE], 2, "usage: render-bootstrap.sh"],
  [["k3s", "nft-proxy"], 1, "neither NAME:TAG nor NAME@sha256:DIGEST: nft-proxy"],
  [["k3s", IMAGE, "10.42.0.0|16"], 1, "not CIDRs: 10.42.0.0|16"],
])("render-bootstrap.sh %j ends with exit code %i", (args, code, message) => {
  const { exitCode, stderr } = render(...args);
  expect(exitCode).toBe(code);
  expect(stderr).toContain(message);
});

test("the archive of an image has the root file system as its layer, and the Dockerfile's settings", () => {
  const folder = mkdtempSync(join(tmpdir(), "archive-"));
  try {
    mkdirSync(join(folder, "root/etc"), { recursive: true });
    writeFileSync(join(folder, "root/etc/passwd"), "root\n");
    const file = join(folder, "image.tar");
    execaSync(join(SCRIPTS, "make-image-archive.sh"), [join(folder, "root"), IMAGE, "arm64", file]);
    execaSync("tar", ["--extract", "--file", file, "--directory", folder]);
    const read = (name: string) => readFileSync(join(folder, name));
    const [{ Config, RepoTags, Layers }] = JSON.parse(read("manifest.json").toString());
    expect([RepoTags, Layers]).toEqual([[IMAGE], ["layer.tar"]]);
    expect(Config).toBe(`${createHash("sha256").update(read(Config)).digest("hex")}.json`);
    const digest = createHash("sha256").update(read("layer.tar")).digest("hex");
    expect(JSON.parse(read(Config).toString())).toMatchObject({
      architecture: "arm64",
      os: "linux",
      config: {
        User: "0:0",
        Entrypoint: ["node", "/usr/local/lib/nft-proxy/nft-proxy.mjs"],
        Cmd: ["run"],
        Env: expect.arrayContaining([expect.stringMatching(/^NODE_OPTIONS=--max-old-space-size=640 /)]),
      },
      rootfs: { type: "layers", diff_ids: [`sha256:${digest}`] },
    });
    const { stdout } = execaSync("tar", ["--list", "--file", join(folder, "layer.tar")]);
    expect(stdout.split("\n")).toEqual(["./", "./etc/", "./etc/passwd"]);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
