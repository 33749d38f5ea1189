import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { parseArguments } from "../../../src/cli/parse-arguments.ts";
import { readFlags } from "../../../src/config/flags.ts";
import type { ProxyOptions } from "../../../src/config/options.ts";
import { resolveOptions } from "../../../src/config/resolve.ts";
import { subjectOf } from "./support.ts";

const FOLDER = "test/fixtures/platforms";
const FLAGS: readonly { readonly platform: string; readonly flags: readonly string[] }[] = parse(
  readFileSync(`${FOLDER}/flags.yaml`, "utf8"),
);

const DEFAULTS = resolveOptions().options;
const NO_TIMEOUTS = { tcpEstablishedTimeoutMs: 0, tcpCloseWaitTimeoutMs: 0 };
const PODS = { clusterCIDRs: { ip: ["10.244.0.0/16"], ip6: [] } };
const METRICS = { metricsBindAddress: { address: "0.0.0.0", port: 10_249 } };
/** AKS leaves the limit of connection tracking alone, but not its timeouts. */
const AKS = { ...PODS, ...METRICS, conntrack: { ...DEFAULTS.conntrack, maxPerCore: 0 }, logVerbosity: 3 };

/** What k3s and RKE2, which have the same code, make of their kube-proxy. */
function rancher(name: string): Partial<ProxyOptions> {
  return {
    hostnameOverride: "node-1",
    healthzBindAddress: { address: "127.0.0.1", port: 10_256 },
    client: { ...DEFAULTS.client, kubeconfig: `/var/lib/rancher/${name}/agent/kubeproxy.kubeconfig` },
    clusterCIDRs: { ip: ["10.42.0.0/16"], ip6: [] },
    conntrack: { ...DEFAULTS.conntrack, maxPerCore: 0, ...NO_TIMEOUTS },
  };
}

/** By platform: the options that differ from the defaults, and the subjects of the warnings. */
const BY_FLAGS: Readonly<Record<string, readonly [Partial<ProxyOptions>, readonly string[]]>> = {
  k3s: [rancher("k3s"), ["--proxy-mode"]],
  RKE2: [rancher("rke2"), ["--proxy-mode"]],
  AKS: [{ ...AKS, detectLocal: { kind: "interface-prefix", prefix: "azv" } }, []],
  "AKS with kubenet": [AKS, []],
  GCE: [
    {
      ...PODS,
      client: { kubeconfig: "/var/lib/kube-proxy/kubeconfig", master: "https://192.0.2.1" },
      ...{ syncPeriodMs: 60_000, minSyncPeriodMs: 10_000, oomScoreAdj: -998, logVerbosity: 2 },
    },
    ["--ipvs-min-sync-period", "--ipvs-sync-period"],
  ],
};

test.each(FLAGS)("the flags of $platform's kube-proxy give its options", ({ platform, flags }) => {
  const { values } = parseArguments(["run", ...flags], () => false);
  const { options, warnings } = resolveOptions({ flags: readFlags(values) });
  const [changes, warned] = BY_FLAGS[platform] ?? [];
  expect(options).toEqual({ ...DEFAULTS, ...changes });
  expect(warnings.map(subjectOf)).toEqual(warned);
});

test.each<[string, Partial<ProxyOptions>, readonly string[]]>([
  [
    "eks-config-map.yaml",
    { client: { ...DEFAULTS.client, kubeconfig: "/var/lib/kube-proxy/kubeconfig" }, ...METRICS },
    ["mode"],
  ],
  [
    "openshift-config-map.yaml",
    {
      clusterCIDRs: { ip: ["192.168.0.0/14"], ip6: [] },
      healthzBindAddress: { address: "0.0.0.0", port: 10_255 },
      metricsBindAddress: { address: "0.0.0.0", port: 29_102 },
    },
    ["mode", "iptables.syncPeriod"],
  ],
  [
    "talos-config-map.yaml",
    {
      ...PODS,
      client: { ...DEFAULTS.client, kubeconfig: "/etc/kubernetes/kubeconfig" },
      conntrack: { ...DEFAULTS.conntrack, maxPerCore: 0 },
    },
    [],
  ],
])("%s gives its options", (name, changes, warned) => {
  const { options, warnings } = resolveOptions({ configText: readFileSync(`${FOLDER}/${name}`, "utf8") });
  expect(options).toEqual({ ...DEFAULTS, ...changes });
  expect(warnings.map(subjectOf)).toEqual(warned);
});
