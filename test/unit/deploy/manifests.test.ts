import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { V1DaemonSet, V1PodSpec } from "@kubernetes/client-node";
import { execaSync } from "execa";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { FLAGS } from "../../../src/cli/flags.ts";
import { parseArguments } from "../../../src/cli/parse-arguments.ts";
import { readFlags } from "../../../src/config/flags.ts";
import { resolveOptions } from "../../../src/config/resolve.ts";
import { debianProgram } from "../../support/debian-program.ts";
import { manifestFaults } from "../../support/kubernetes-schema.ts";
import { buildKustomization, type Manifest, parseManifests } from "../../support/kustomize.ts";
import {
  buildOverlay,
  buildOwn,
  buildWithComponent,
  CLEANUP,
  DEPLOY,
  OVERLAYS,
} from "../../support/overlays.ts";

function podOf(manifests: readonly Manifest[]): V1PodSpec {
  const daemonSet = manifests.find(({ kind }) => kind === "DaemonSet") as unknown as V1DaemonSet;
  return daemonSet.spec?.template.spec as V1PodSpec;
}

const named = (manifests: readonly Manifest[], kind: string, name: string) =>
  manifests.find((manifest) => manifest.kind === kind && manifest.metadata.name === name);

/** @returns the number of a quantity in MiB, such as 256Mi */
const mebibytes = (quantity: string) => Number(/^(\d+)Mi$/.exec(quantity)?.[1]);

/** The addresses of the API server in the overlays other than kubeadm's. */
const ADDRESSES: Readonly<Record<string, { readonly host: string; readonly port: string }>> = {
  "explicit-control-plane": { host: "192.0.2.1", port: "6443" },
  "dual-stack": { host: "192.0.2.1", port: "6443" },
  k3s: { host: "127.0.0.1", port: "6444" },
  rke2: { host: "localhost", port: "6443" },
  talos: { host: "localhost", port: "7445" },
};

const VERSION = JSON.parse(readFileSync(join(DEPLOY, "../package.json"), "utf8")).version;

describe.each(OVERLAYS)("the overlay %s", (overlay) => {
  const manifests = buildOverlay(overlay);
  const pod = podOf(manifests);

  test("is what the API server takes", () => {
    expect(manifests.flatMap(manifestFaults)).toEqual([]);
    expect(manifests.map(({ kind }) => kind)).toContain("DaemonSet");
  });

  test("labels every object and the pods as Kubernetes recommends, and selects by the name alone", () => {
    const recommended = {
      "app.kubernetes.io/name": "nft-proxy",
      "app.kubernetes.io/component": "service-proxy",
      "app.kubernetes.io/managed-by": "kustomize",
    };
    for (const { metadata } of manifests) expect(metadata).toMatchObject({ labels: recommended });
    const { selector, template } =
      (named(manifests, "DaemonSet", "nft-proxy") as unknown as V1DaemonSet).spec ?? {};
    expect(template?.metadata?.labels).toEqual(recommended);
    expect(selector).toEqual({ matchLabels: { "app.kubernetes.io/name": "nft-proxy" } });
  });

  test("limits memory and ephemeral storage, the latter to more than its volumes may hold", () => {
    const held = (pod.volumes ?? []).map(({ emptyDir }) => mebibytes(emptyDir?.sizeLimit ?? "0Mi"));
    for (const { resources } of pod.containers) {
      expect(resources?.requests).toMatchObject({
        memory: expect.any(String),
        "ephemeral-storage": expect.any(String),
      });
    }
    const limit = pod.containers[0]?.resources?.limits?.["ephemeral-storage"] ?? "0Mi";
    expect(mebibytes(limit)).toBeGreaterThan(held.reduce((sum, size) => sum + size, 0));
  });

  test("mounts each of its volumes, and volumes and ConfigMaps that exist", () => {
    const volumes = (pod.volumes ?? []).map(({ name }) => name);
    const mounted = pod.containers.flatMap(({ volumeMounts = [] }) => volumeMounts);
    expect([...new Set(mounted.map(({ name }) => name))].sort()).toEqual(volumes.sort());
    for (const { configMap } of pod.volumes ?? []) {
      if (configMap?.name !== undefined && configMap.name !== "kube-proxy") {
        expect(named(manifests, "ConfigMap", configMap.name)).toBeDefined();
      }
    }
  });

  test("passes flags that exist, and a configuration file that is mounted", () => {
    for (const { args = [], volumeMounts = [] } of pod.containers) {
      const flags = args.slice(1).map((argument) => /^--([a-z-]+)/.exec(argument)?.[1]);
      expect(args[0]).toBe("run");
      expect(FLAGS.map(({ name }) => name)).toEqual(expect.arrayContaining(flags));
      const config =
        args.find((argument) => argument.startsWith("--config="))?.slice("--config=".length) ?? "";
      expect(volumeMounts.some(({ mountPath }) => config.startsWith(`${mountPath}/`))).toBe(true);
    }
  });

  test("gives a token of the service account to the daemon, and to no container that a component adds", () => {
    const folder = "/var/run/secrets/kubernetes.io/serviceaccount";
    expect(pod.automountServiceAccountToken).toBe(false);
    expect(pod.containers[0]?.volumeMounts?.map(({ mountPath }) => mountPath)).toContain(folder);
  });

  test("gives the daemon only the rights that it needs", () => {
    const [daemon] = pod.containers;
    expect(daemon?.securityContext).toMatchObject({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ["ALL"], add: ["NET_ADMIN"] },
    });
    expect(daemon?.securityContext?.privileged).toBeUndefined();
    expect(pod).toMatchObject({
      hostNetwork: true,
      priorityClassName: "system-node-critical",
      tolerations: [{ operator: "Exists" }],
      securityContext: { seccompProfile: { type: "RuntimeDefault" } },
    });
    expect(pod.hostPID ?? pod.hostIPC ?? pod.initContainers).toBeUndefined();
  });

  test("has the API server's address before any rules exist", () => {
    const env = pod.containers[0]?.env ?? [];
    const from = env.map(({ name, valueFrom }) => [name, valueFrom?.configMapKeyRef?.name]);
    if (overlay === "kubeadm") {
      expect(pod.volumes?.find(({ name }) => name === "config")?.configMap?.name).toBe("kube-proxy");
      expect(from).toEqual([["NODE_NAME", undefined]]);
    } else {
      expect(from).toContainEqual(["KUBERNETES_SERVICE_HOST", "nft-proxy-control-plane"]);
      expect(from).toContainEqual(["KUBERNETES_SERVICE_PORT", "nft-proxy-control-plane"]);
      const address = named(manifests, "ConfigMap", "nft-proxy-control-plane")?.data;
      expect(address).toEqual(ADDRESSES[overlay]);
    }
  });

  test("has a valid configuration without ignored fields, except for kubeadm's own", () => {
    const data = named(manifests, "ConfigMap", "nft-proxy")?.data as Record<string, string> | undefined;
    expect(data === undefined).toBe(overlay === "kubeadm");
    if (data === undefined) return;
    const { options, warnings } = resolveOptions({ configText: data["config.yaml"] ?? "" });
    expect(warnings).toEqual([]);
    expect(options.clusterCIDRs.ip6).toHaveLength(overlay === "dual-stack" ? 1 : 0);
    // The probes ask this port.
    expect(options.healthzBindAddress?.port).toBe(pod.containers[0]?.ports?.[0]?.containerPort);
    const { maxPerCore, tcpEstablishedTimeoutMs, tcpCloseWaitTimeoutMs } = options.conntrack;
    expect([maxPerCore, tcpEstablishedTimeoutMs, tcpCloseWaitTimeoutMs]).toEqual([0, 0, 0]);
  });
});

/** Holds the file `reserved-node-ports` of src/kernel/reserved-ports.ts. */
const RECORD_FOLDER = "/run/nft-proxy";

describe.each(OVERLAYS)("the overlay %s with the component reserve-nodeports", (overlay) => {
  const manifests = buildWithComponent(overlay, "reserve-nodeports");
  const pod = podOf(manifests);

  test("is what the API server takes", () => {
    expect(manifests.flatMap(manifestFaults)).toEqual([]);
  });

  test("reserves NodePorts in a privileged container, and keeps its record of them on the host", () => {
    const [daemon] = pod.containers;
    expect(daemon?.args).toContain("--reserve-nodeports");
    // The API server takes no privileged container that must not escalate.
    expect(daemon?.securityContext).toEqual({ privileged: true, readOnlyRootFilesystem: true, runAsUser: 0 });
    const mount = daemon?.volumeMounts?.find(({ mountPath }) => mountPath === RECORD_FOLDER);
    expect(pod.volumes?.filter(({ name }) => name === mount?.name)).toEqual([
      { name: mount?.name, hostPath: { path: RECORD_FOLDER, type: "DirectoryOrCreate" } },
    ]);
  });
});

describe.each(OVERLAYS)("the overlay %s with the component host-settings", (overlay) => {
  const manifests = buildOwn({
    resources: [`../overlays/${overlay}`],
    components: ["../host-settings"],
    images: [{ name: "ghcr.io/nft-proxy/nft-proxy", newName: "registry.example/nft-proxy", newTag: "2" }],
  });
  const { initContainers = [], containers } = podOf(manifests);

  test("is what the API server takes, and sets up the host in a privileged init container without a token", () => {
    expect(manifests.flatMap(manifestFaults)).toEqual([]);
    expect(initContainers).toMatchObject([
      { args: ["run", "--init-only"], securityContext: { privileged: true } },
    ]);
    expect(initContainers[0]?.volumeMounts).toBeUndefined();
    expect(containers.map(({ securityContext }) => securityContext?.privileged)).toEqual([undefined]);
  });

  test("runs the image that the user's kustomization names", () => {
    const images = [...initContainers, ...containers].map(({ image }) => image);
    expect(images).toEqual(["registry.example/nft-proxy:2", "registry.example/nft-proxy:2"]);
  });
});

describe.each(OVERLAYS)("the overlay %s with the component migration-port", (overlay) => {
  const [daemon] = podOf(buildWithComponent(overlay, "migration-port")).containers;

  test("has its health checks on a port that kube-proxy does not use, whatever the configuration says", () => {
    expect(daemon?.ports).toEqual([
      { name: "healthz", containerPort: 10_266, hostPort: 10_266, protocol: "TCP" },
    ]);
    const args = (daemon?.args ?? []).map((argument) => argument.replace("$(NODE_NAME)", "node-1"));
    const flags = readFlags(parseArguments(args, () => false).values);
    const configText = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";
    const { options } = resolveOptions({ flags, configText });
    expect(options.healthzBindAddress?.port).toBe(10_266);
    expect(options.secondHealthzBindAddress?.port).toBe(10_256);
  });
});

describe("the overlay cleanup", () => {
  const manifests = buildOverlay(CLEANUP);
  const pod = podOf(manifests);

  test("is what the API server takes", () => {
    expect(manifests.flatMap(manifestFaults)).toEqual([]);
  });

  test("removes the tables in the host's network with no more than NET_ADMIN, and runs no daemon", () => {
    expect(pod.hostNetwork).toBe(true);
    expect(pod.initContainers).toMatchObject([
      { args: ["cleanup"], securityContext: { capabilities: { drop: ["ALL"], add: ["NET_ADMIN"] } } },
    ]);
    expect(pod.containers).toMatchObject([{ securityContext: { capabilities: { drop: ["ALL"] } } }]);
    expect(pod.containers[0]?.command?.slice(0, 2)).toEqual(["node", "--eval"]);
  });
});

test("the patches of the guide for many nodes choose nodes by their label, and pods to replace by hand", () => {
  const guide = readFileSync(join(DEPLOY, "../docs/install/large-clusters.md"), "utf8");
  const [own, patches] = [...guide.matchAll(/^```yaml\n([\s\S]*?)^```/gm)].map(([, block = ""]) =>
    parse(block),
  );
  const resources = own.resources.map((path: string) => path.replace("nft-proxy/deploy/", "../"));
  const manifests = buildOwn({ resources, patches: [...own.patches, ...patches] });
  expect(manifests.flatMap(manifestFaults)).toEqual([]);
  expect(podOf(manifests).nodeSelector).toEqual({ "kubernetes.io/os": "linux", "nft-proxy.io/node": "true" });
  expect(named(manifests, "DaemonSet", "nft-proxy")).toMatchObject({
    spec: { updateStrategy: { type: "OnDelete" } },
  });
});

describe("the manifests of a release", () => {
  const script = join(DEPLOY, "../scripts/render-manifests.sh");
  const kubectl = debianProgram("sid", "kubectl", "kubectl");

  test("are those of every overlay, with the image by its digest", () => {
    const folder = mkdtempSync(join(tmpdir(), "manifests-"));
    try {
      const digest = `sha256:${"0123456789abcdef".repeat(4)}`;
      execaSync(script, [kubectl, `registry.example/p/nft-proxy@${digest}`, folder]);
      const version = { "app.kubernetes.io/version": VERSION };
      expect(readdirSync(folder).sort()).toEqual(
        [...OVERLAYS, CLEANUP].map((overlay) => `nft-proxy-${overlay}.yaml`).sort(),
      );
      for (const file of readdirSync(folder)) {
        const manifests = parseManifests(readFileSync(join(folder, file), "utf8"));
        expect(manifests.flatMap(manifestFaults)).toEqual([]);
        for (const { metadata } of manifests) expect(metadata).toMatchObject({ labels: version });
        const { initContainers = [], containers } = podOf(manifests);
        expect([...new Set([...initContainers, ...containers].map(({ image }) => image))]).toEqual([
          `registry.example/p/nft-proxy@${digest}`,
        ]);
      }
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  test("are not rendered with an image by its tag", () => {
    const { exitCode, stderr } = execaSync(script, [kubectl, "nft-proxy:0.1.0", "unused"], { reject: false });
    expect([exitCode, stderr]).toEqual([1, "render-manifests: not NAME@sha256:DIGEST: nft-proxy:0.1.0"]);
  });
});

describe("a faulty overlay", () => {
  test("is not built without the control plane's address", () => {
    expect(() => buildKustomization(join(DEPLOY, "overlays/explicit-control-plane"))).toThrow(
      "control-plane.env",
    );
  });

  test("is found by a field's wrong name or type", () => {
    const pod = { containers: [{ name: "a", imagePullPolice: "Always", ports: [{ containerPort: "80" }] }] };
    const manifest = {
      ...{ apiVersion: "apps/v1", kind: "DaemonSet", metadata: { name: "a" } },
      spec: { selector: {}, template: { spec: pod } },
    };
    expect(manifestFaults(manifest)).toEqual([
      "DaemonSet.spec.template.spec.containers[0].imagePullPolice does not exist",
      expect.stringContaining("containerPort must be integer"),
    ]);
  });
});

describe("the admission policy", () => {
  const manifests = buildKustomization(join(DEPLOY, "admission"));

  test("is what the API server takes", () => {
    expect(manifests.flatMap(manifestFaults)).toEqual([]);
  });
});
