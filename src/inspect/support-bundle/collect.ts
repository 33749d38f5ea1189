import { messageOf } from "../../base/errors.ts";
import { FAMILIES } from "../../base/family.ts";
import type { ProxyOptions } from "../../config/options.ts";
import { printConfiguration } from "../../config/print.ts";
import { hostFiles } from "../../kernel/host.ts";
import { Nft } from "../../kernel/nft.ts";
import type { DaemonAnswers, DaemonObjects } from "../../sync/daemon-protocol.ts";
import { askDaemon } from "../daemon-socket/daemon-client.ts";
import { localUrl, type RunningDaemon } from "../daemon-socket/running-daemon.ts";
import { doctorHost } from "../doctor/doctor-host.ts";
import { examineHost } from "../doctor/examine.ts";
import type { ArchiveFile } from "./archive.ts";
import type { NamesByKind } from "./redact.ts";

/** What a support bundle is collected from. */
export interface BundleRequest {
  readonly options: ProxyOptions;
  /** The node's name. */
  readonly nodeName: string;
  /** Absent when no daemon answers on this host. */
  readonly daemon?: RunningDaemon;
  /** The product's version. */
  readonly version: string;
}

/** The files of a support bundle, and the names in them that tell something about the cluster. */
export interface Bundle {
  readonly files: readonly ArchiveFile[];
  readonly names: NamesByKind;
}

type Collect = () => Promise<string>;

/** Collects everything for a report. A part that cannot be had is a file that says why. Changes nothing. */
export async function collectBundle(request: BundleRequest): Promise<Bundle> {
  const { options, daemon } = request;
  const nft = new Nft({ path: options.nftPath });
  const parts: readonly (readonly [name: string, collect: Collect])[] = [
    ["versions.json", () => versions(request, nft)],
    ["options.yaml", async () => printConfiguration(options)],
    ["state.json", () => ofDaemon(daemon, "state")],
    ["desired.json", () => ofDaemon(daemon, "desired")],
    ["committed.json", () => ofDaemon(daemon, "committed")],
    ["pending.json", () => ofDaemon(daemon, "pending")],
    ["daemon.log", async () => logText(await answer(daemon, "log"))],
    ...FAMILIES.map((family) => [`kernel-${family}.json`, () => tableText(nft, family)] as const),
    [
      "doctor.json",
      async () => jsonText(await examineHost(doctorHost, options, { areDefaults: daemon === undefined })),
    ],
    ["metrics.txt", () => metricsText(options)],
  ];
  const files: ArchiveFile[] = [];
  for (const [name, collect] of parts) {
    files.push({ name: `nft-proxy-support/${name}`, text: await collect().catch(unavailable) });
  }
  const known = await namesOf(request);
  return { files, names: { ...known, ...namesInChains(files, known) } };
}

async function metricsText({ metricsBindAddress: metrics }: ProxyOptions): Promise<string> {
  if (metrics === undefined) throw new Error("the metrics server is switched off");
  return (await doctorHost.get(`${localUrl(metrics)}/metrics`)).body;
}

function unavailable(error: unknown): string {
  return `unavailable: ${messageOf(error)}\n`;
}

async function versions({ version, daemon }: BundleRequest, nft: Nft): Promise<string> {
  const read = (path: string) =>
    hostFiles.read(path).then(
      (text) => text.trim(),
      () => "unknown",
    );
  return jsonText({
    command: version,
    daemon: daemon?.state.version ?? "no daemon answers",
    node: process.version,
    nft: await nft.version().catch(unavailable),
    kernel: await read("/proc/sys/kernel/osrelease"),
    system: await read("/etc/os-release"),
  });
}

async function answer<Name extends keyof DaemonAnswers>(
  daemon: RunningDaemon | undefined,
  name: Name,
): Promise<DaemonAnswers[Name]> {
  const found = daemon === undefined ? undefined : await askDaemon(daemon.socket, name);
  if (found === undefined) throw new Error("no daemon answers");
  return found;
}

async function ofDaemon(daemon: RunningDaemon | undefined, name: keyof DaemonAnswers): Promise<string> {
  return jsonText(await answer(daemon, name));
}

function logText(lines: readonly string[]): string {
  return lines.join("");
}

async function tableText(nft: Nft, family: "ip" | "ip6"): Promise<string> {
  return (await nft.listTable(family)) ?? "no such table\n";
}

function jsonText(value: unknown): string {
  return `${JSON.stringify(value, null, 1)}\n`;
}

async function namesOf({ daemon, nodeName }: BundleRequest): Promise<NamesByKind> {
  const empty: DaemonObjects = { services: [], endpointSlices: [], nodes: [], serviceCIDRs: [] };
  const objects = await answer(daemon, "objects").catch(() => empty);
  const qualified = objects.services.map(({ name }) => name.split("/"));
  const endpoints = objects.endpointSlices.flatMap((slice) => slice.endpoints);
  const ports = objects.services.flatMap((service) => service.ports.map(({ name }) => name));
  return {
    node: [nodeName, ...endpoints.map((endpoint) => endpoint.nodeName), ...objects.nodes.map(({ name }) => name)],
    zone: [...endpoints.map(({ zone }) => zone), ...endpoints.flatMap(({ zoneHints }) => zoneHints)],
    namespace: qualified.map(([namespace = ""]) => namespace),
    service: qualified.map(([, name = ""]) => name),
    pod: endpoints.flatMap(({ pod }) => pod.split("/").at(-1) ?? ""),
    port: ports,
    slice: objects.endpointSlices.map(({ name }) => name),
  };
}

/** Names of the chains of source ranges, `firewall-shop/cart/tcp/http`: known also without a daemon. */
function namesInChains(files: readonly ArchiveFile[], known: NamesByKind): NamesByKind {
  const parts = files.flatMap(({ text }) =>
    [...text.matchAll(/\bfirewall-([\w-]+)\/([\w-]+)\/\w+\/([\w-]*)/g)].map((found) => found.slice(1)),
  );
  return {
    namespace: [...(known.namespace ?? []), ...parts.flatMap(([namespace = ""]) => namespace)],
    service: [...(known.service ?? []), ...parts.flatMap(([, service = ""]) => service)],
    port: [...(known.port ?? []), ...parts.flatMap(([, , port = ""]) => port)],
  };
}
