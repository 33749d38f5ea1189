import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { V1ClusterRole, V1DaemonSet, V1PodSpec } from "@kubernetes/client-node";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { resolveOptions } from "../../../src/config/resolve.ts";
import { manifestFaults } from "../../support/kubernetes-schema.ts";
import type { Manifest } from "../../support/kustomize.ts";
import { buildOwn, DEPLOY } from "../../support/overlays.ts";

const FOLDER = join(DEPLOY, "../docs/install");
const PAGES = readdirSync(FOLDER).filter((name) => name.endsWith(".md") && name !== "README.md");
/** The pages that tell how to install or migrate. */
const PROCEDURES = ["clouds.md", "migration.md", "new-clusters.md"];

/** A block of YAML in a page, parsed. */
type Block = Readonly<Record<string, unknown>>;

const page = (name: string) => readFileSync(join(FOLDER, name), "utf8");

/** The YAML blocks of a page, those inside list items without their indentation. */
function yamlBlocks(text: string): Block[] {
  return [...text.matchAll(/^( *)```yaml\n([\s\S]*?)^ *```/gm)].map(([, indent = "", block = ""]) =>
    parse(block.replaceAll(new RegExp(`^${indent}`, "gm"), "")),
  );
}

/** Builds a kustomization that stands beside a copy of this repository, or in a folder beside it. */
function buildBlock(block: Block, resources = block.resources): Manifest[] {
  const local = (paths: unknown) =>
    ((paths ?? []) as string[]).map((path) => path.replace(/^(\.\.\/)?nft-proxy\/deploy\//, "../"));
  return buildOwn({ ...block, resources: local(resources), components: local(block.components) });
}

const named = (manifests: readonly Manifest[], kind: string, name: string) =>
  manifests.find((manifest) => manifest.kind === kind && manifest.metadata.name === name);

test.each(PROCEDURES)("%s says what was run here, and what was not", (name) => {
  const [, section = ""] = page(name).split("\n## What was run here\n");
  expect(section).toContain("**Not run**: ");
});

test("docs/install/README.md links to every page", () => {
  const text = page("README.md");
  for (const name of PAGES) expect(text).toContain(`](${name})`);
});

const KUSTOMIZATIONS = [...PROCEDURES, "large-clusters.md"].flatMap((name) =>
  yamlBlocks(page(name)).flatMap((block) => ("resources" in block ? [[name, block] as const] : [])),
);

test("the pages with steps have a kustomization for each", () => {
  expect(KUSTOMIZATIONS.map(([name, { resources }]) => [name, resources])).toEqual([
    ["clouds.md", ["nft-proxy/deploy/base"]],
    ["migration.md", ["nft-proxy/deploy/overlays/kubeadm"]],
    // In a folder of its own, for `kubectl apply -k cleanup`.
    ["migration.md", ["../nft-proxy/deploy/overlays/cleanup"]],
    ["new-clusters.md", ["nft-proxy/deploy/overlays/explicit-control-plane"]],
    ["large-clusters.md", ["nft-proxy/deploy/overlays/kubeadm"]],
  ]);
});

describe.each(KUSTOMIZATIONS)("the kustomization of %s with %j", (_name, block) => {
  const manifests = buildBlock(block);
  const daemonSet = named(manifests, "DaemonSet", "nft-proxy") as unknown as V1DaemonSet;
  const { initContainers = [], containers = [] } = daemonSet.spec?.template.spec ?? {};

  test("is what the API server takes", () => {
    expect(manifests.flatMap(manifestFaults)).toEqual([]);
  });

  test("names an image, which all of its containers use", () => {
    const images = [...initContainers, ...containers].map(({ image }) => image);
    expect(new Set(images)).toEqual(new Set(["REGISTRY/nft-proxy:0.1.0"]));
  });
});

describe("the kustomization of clouds.md", () => {
  const [block = {}] = yamlBlocks(page("clouds.md"));
  const manifests = buildBlock(block);

  test("names an address of the API server, under the name that the pods read", () => {
    const address = named(manifests, "ConfigMap", "nft-proxy-control-plane")?.data;
    expect(address).toEqual({ host: expect.stringMatching(/^[\w.-]+$/), port: "443" });
  });

  test("has a valid configuration without ignored fields, also with the fields for Azure CNI", () => {
    const data = named(manifests, "ConfigMap", "nft-proxy")?.data as Readonly<Record<string, string>>;
    const text = data["config.yaml"] ?? "";
    const fields = [...page("clouds.md").matchAll(/`(detectLocal\w*: [^`]+)`/g)].map(([, field]) => field);
    expect(fields).toHaveLength(2);
    for (const configText of [text, `${text}\n${fields.join("\n")}\n`])
      expect(resolveOptions({ configText }).warnings).toEqual([]);
  });
});

test.each([
  ["migration.md", "`disable-kube-proxy: true`"],
  ["migration.md", "`cluster.proxy.disabled: true`"],
  ["new-clusters.md", "`disable-kube-proxy: true`"],
  ["clouds.md", '{"spec":{"deployKubeProxy":false}}'],
])("%s names the setting %s that stops kube-proxy", (name, setting) => {
  expect(page(name)).toContain(setting);
});

describe.each([
  ["job.yaml", "VERSION", "v1.36.3"],
  ["job-nftables.yaml", "IMAGE", "REGISTRY/nft-proxy:0.1.0"],
])("the Job %s that the migration creates for each node", (file, placeholder, value) => {
  const [, loop = ""] = /\n(for node in [\s\S]*?)```/.exec(page("migration.md")) ?? [];
  const text = readFileSync(join(DEPLOY, "kube-proxy-cleanup", file), "utf8");

  test("is what the API server takes once the placeholders are replaced as in the migration", () => {
    expect(loop).toContain("s|NODE|$node|");
    expect(page("migration.md")).toContain(`s|${placeholder}|${value}|`);
    const replaced = text.replaceAll(/^.*$/gm, (line) =>
      line.replace("NODE", "node-1").replace(placeholder, value),
    );
    const job = parse(replaced) as Manifest & { spec: { template: { spec: V1PodSpec } } };
    expect(manifestFaults(job)).toEqual([]);
    const { nodeName, containers, restartPolicy } = job.spec.template.spec;
    expect([nodeName, restartPolicy]).toEqual(["node-1", "Never"]);
    expect(containers.map(({ image }) => image)).toEqual([expect.stringMatching(new RegExp(`${value}$`))]);
  });

  test("has the label by which the migration waits for it", () => {
    const job = parse(text) as { metadata: { labels: Readonly<Record<string, string>> } };
    const [[name, label] = []] = Object.entries(job.metadata.labels);
    expect(loop).toContain(`-l ${name}=${label} `);
  });
});

test("the API server accepts the patch for SELinux", () => {
  const [block = {}] = yamlBlocks(page("hardened-hosts.md"));
  const manifests = buildBlock(block, ["nft-proxy/deploy/overlays/kubeadm"]);
  expect(manifests.flatMap(manifestFaults)).toEqual([]);
  expect(named(manifests, "DaemonSet", "nft-proxy")).toMatchObject({
    spec: { template: { spec: { securityContext: { seLinuxOptions: { type: "spc_t" } } } } },
  });
});

test("the API server accepts the role of SECURITY.md for one node, and the role allows the daemon's requests for Nodes", () => {
  const [role] = yamlBlocks(readFileSync(join(DEPLOY, "../SECURITY.md"), "utf8")) as unknown as Manifest[];
  expect(role && manifestFaults(role)).toEqual([]);
  expect((role as unknown as V1ClusterRole).rules).toEqual([
    { apiGroups: [""], resources: ["nodes"], resourceNames: ["node-1"], verbs: ["list", "watch"] },
  ]);
});
