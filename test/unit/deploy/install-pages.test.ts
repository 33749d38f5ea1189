import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { V1ClusterRole, V1DaemonSet } from "@kubernetes/client-node";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { resolveOptions } from "../../../src/config/resolve.ts";
import { manifestFaults } from "../../support/kubernetes-schema.ts";
import type { Manifest } from "../../support/kustomize.ts";
import { buildOwn, DEPLOY } from "../../support/overlays.ts";

const FOLDER = join(DEPLOY, "../docs/install");
/** The pages of docs/install that are not about one platform. */
const GENERAL = ["README.md", "hardened-hosts.md", "large-clusters.md", "migration.md", "neighbours.md"];
const PLATFORMS = readdirSync(FOLDER).filter((name) => name.endsWith(".md") && !GENERAL.includes(name));

const SECTIONS = [
  "What runs there",
  "Before you begin",
  "Install",
  "Migrate",
  "Go back",
  "What cannot be done",
  "What was run here",
];

/** A block of YAML in a page, parsed. */
type Block = Readonly<Record<string, unknown>>;

const page = (name: string) => readFileSync(join(FOLDER, name), "utf8");

/** The YAML blocks of a page, those inside list items without their indentation. */
function yamlBlocks(text: string): Block[] {
  return [...text.matchAll(/^( *)```yaml\n([\s\S]*?)^ *```/gm)].map(([, indent = "", block = ""]) =>
    parse(block.replaceAll(new RegExp(`^${indent}`, "gm"), "")),
  );
}

/** Builds a kustomization that stands beside a copy of this repository. */
function buildBlock(block: Block, resources = block.resources): Manifest[] {
  const local = (paths: unknown) =>
    ((paths ?? []) as string[]).map((path) => path.replace("nft-proxy/deploy/", "../"));
  return buildOwn({ ...block, resources: local(resources), components: local(block.components) });
}

const named = (manifests: readonly Manifest[], kind: string, name: string) =>
  manifests.find((manifest) => manifest.kind === kind && manifest.metadata.name === name);

test.each(PLATFORMS)("%s has the same sections as the other platforms", (name) => {
  expect([...page(name).matchAll(/^## (.*)$/gm)].map(([, title]) => title)).toEqual(SECTIONS);
});

test("docs/install/README.md links to every page", () => {
  const text = page("README.md");
  for (const name of [...PLATFORMS, ...GENERAL.slice(1)]) expect(text).toContain(`](${name})`);
});

const KUSTOMIZATIONS = PLATFORMS.flatMap((name) =>
  yamlBlocks(page(name)).flatMap((block) => ("resources" in block ? [[name, block] as const] : [])),
);

test("seven pages have a kustomization of their own", () => {
  expect(KUSTOMIZATIONS.map(([name]) => name)).toEqual(
    ["aks", "eks", "gke", "k3s", "openshift", "rke2", "talos"].map((name) => `${name}.md`),
  );
});

describe.each(KUSTOMIZATIONS)("the kustomization of %s", (_name, block) => {
  const manifests = buildBlock(block);
  const daemonSet = named(manifests, "DaemonSet", "nft-proxy") as unknown as V1DaemonSet;
  const { initContainers = [], containers = [] } = daemonSet.spec?.template.spec ?? {};
  const data = named(manifests, "ConfigMap", "nft-proxy")?.data as Readonly<Record<string, string>>;
  const { options, warnings } = resolveOptions({ configText: data["config.yaml"] ?? "" });

  test("is what the API server takes", () => {
    expect(manifests.flatMap(manifestFaults)).toEqual([]);
  });

  test("names an address of the API server, under the name that the pods read", () => {
    const address = named(manifests, "ConfigMap", "nft-proxy-control-plane")?.data;
    expect(address).toEqual({
      host: expect.stringMatching(/^[\w.-]+$/),
      port: expect.stringMatching(/^(?:443|6443|6444|7445)$/),
    });
  });

  test("has a valid configuration without ignored fields, and probes that ask its health port", () => {
    expect(warnings).toEqual([]);
    const [port] = containers[0]?.ports ?? [];
    expect(port).toMatchObject({
      containerPort: options.healthzBindAddress?.port,
      hostPort: options.healthzBindAddress?.port,
    });
  });

  test("sets connection tracking exactly where it has the privileged init container", () => {
    const { maxPerCore, tcpEstablishedTimeoutMs, tcpCloseWaitTimeoutMs } = options.conntrack;
    const sets = maxPerCore > 0 || tcpEstablishedTimeoutMs > 0 || tcpCloseWaitTimeoutMs > 0;
    expect(initContainers.length > 0).toBe(sets);
  });
});

test.each([
  ["k3s.md", { "disable-kube-proxy": true }],
  ["rke2.md", { "disable-kube-proxy": true }],
  ["talos.md", { cluster: { proxy: { disabled: true } } }],
  ["kubeadm.md", { proxy: { disabled: true } }],
  ["openshift.md", expect.objectContaining({ kind: "Network", spec: { deployKubeProxy: false } })],
])("%s names the setting that stops kube-proxy", (name, setting) => {
  expect(yamlBlocks(page(name))).toContainEqual(setting);
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
