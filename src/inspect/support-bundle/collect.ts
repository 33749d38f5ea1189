import { gzipSync } from "node:zlib";
import { createTar } from "nanotar";
import { messageOf } from "../../base/errors.ts";
import type { Family } from "../../base/family.ts";
import { printConfiguration } from "../../config/configuration-file.ts";
import type { ProxyOptions } from "../../config/options.ts";
import { hostFiles } from "../../kernel/host.ts";
import type { Nft } from "../../kernel/nft.ts";
import { listTable } from "../../kernel/nft-listings.ts";
import { hostVersions } from "../../kernel/versions.ts";
import type { Ruleset } from "../../nft/ast/ruleset.ts";
import { rebuildTransaction } from "../../nft/transaction.ts";
import { askDaemon, localUrl, type RunningDaemon } from "../../socket/daemon-client.ts";
import type { DaemonAnswers, DaemonObjects } from "../../socket/daemon-protocol.ts";
import { examineHost } from "../doctor/examine.ts";
import { doctorHost } from "../doctor/host-facts.ts";
import { getAnswer } from "../http-answer.ts";
import { NO_OBJECTS } from "../load/desired.ts";
import { listingNft, liveTables } from "../load/kernel-tables.ts";
import type { LoadRequest } from "../load/load-request.ts";
import { type BundleFile, foundNames, type NamesByKind } from "./redact.ts";

/** The sources of a support bundle. */
export interface BundleRequest extends Pick<LoadRequest, "options" | "nodeName" | "daemon"> {
  /** Why a listener on the daemon's socket gives no usable answer. */
  readonly socketProblem?: string | undefined;
  /** Version of nft-proxy. */
  readonly version: string;
}

/** A support bundle. */
export type Bundle = Readonly<Awaited<ReturnType<typeof collectBundle>>>;

/**
 * Collects everything for a report. A part that is unavailable becomes a file with the reason. Changes
 * nothing.
 */
export async function collectBundle(request: BundleRequest) {
  const { options, daemon, socketProblem } = request;
  const nft = listingNft(options.nftPath);
  // The daemon may have to wait before it can list them; everything else is collected meanwhile.
  const tables = liveTables({ options, daemon }).catch(() => undefined);
  const answered = (name: "state" | "desired" | "committed" | "pending") => async () =>
    bundledJson(await answer(daemon, name));
  const kernel = (family: Family) => async () => tableText(family, (await tables)?.ruleset, nft);
  const examination = { areDefaults: daemon === undefined, socketProblem };
  const parts: Readonly<Record<string, () => Promise<string>>> = {
    "versions.json": () => versions(request, nft),
    "options.yaml": async () => printConfiguration(options),
    "state.json": answered("state"),
    "desired.json": answered("desired"),
    "committed.json": answered("committed"),
    "pending.json": answered("pending"),
    "daemon.log": async () => (await answer(daemon, "log")).join(""),
    "doctor.json": async () => bundledJson(await examineHost(doctorHost, options, examination)),
    "metrics.txt": () => metricsText(options),
    "kernel-ip.json": kernel("ip"),
    "kernel-ip6.json": kernel("ip6"),
  };
  const files: BundleFile[] = [];
  for (const [name, collect] of Object.entries(parts))
    files.push(fileOf(name, await collect().catch(unavailable)));
  const live = await tables;
  const notices: readonly string[] = live?.notices ?? [];
  if (notices.length > 0) files.push(fileOf("kernel-moment.txt", `${notices.join("\n")}\n`));
  return {
    files,
    /** The times at which the kernel's tables were read, if they are not current; one line each. */
    notices,
    /** The objects of the kernel's tables; absent if these are not the daemon's. */
    objects: live?.objects,
  };
}

/** The folder of an archive that has all its files. */
export const BUNDLE_FOLDER = "nft-proxy-support";

function fileOf(name: string, text: string): BundleFile {
  return { name: `${BUNDLE_FOLDER}/${name}`, text };
}

/**
 * Returns the names in a bundle that say something about the cluster. Objects may be added and deleted while
 * its files are collected, so this includes those of the kernel's tables and current ones.
 * @throws AppError HOST, or an error, if the daemon does not return its objects
 */
export async function bundleNames(
  { daemon, nodeName }: BundleRequest,
  { files, objects }: Bundle,
): Promise<NamesByKind[]> {
  const current = daemon === undefined ? [] : [namesOf(await answer(daemon, "objects"), nodeName)];
  return [...current, foundNames(files), namesOf(objects ?? NO_OBJECTS, nodeName)];
}

async function metricsText({ metricsBindAddress: metrics }: ProxyOptions): Promise<string> {
  if (metrics === undefined) throw new Error("the metrics server is switched off");
  const { status, body } = await getAnswer(`${localUrl(metrics)}/metrics`);
  if (status !== 200) throw new Error(`HTTP status ${status}`);
  return body;
}

function unavailable(error: unknown): string {
  return `unavailable: ${messageOf(error)}\n`;
}

async function versions({ version, daemon, socketProblem }: BundleRequest, nft: Nft): Promise<string> {
  return bundledJson({
    command: version,
    daemon: daemon?.state.version ?? socketProblem ?? "no daemon answers",
    ...(await hostVersions(nft)),
    system: await hostFiles.read("/etc/os-release").then((text) => text.trim(), unavailable),
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

/**
 * Formats a table with its elements like the desired ones; nft's listing without elements if it is not
 * understood.
 */
async function tableText(family: Family, ruleset: Ruleset | undefined, nft: Nft): Promise<string> {
  if (ruleset === undefined) return (await listTable(nft, family)) ?? "no such table\n";
  const table = ruleset[family];
  return table === undefined ? "no such table\n" : bundledJson(rebuildTransaction({ [family]: table }));
}

/** A value as JSON that people can read. Ends with a line feed. */
export function bundledJson(value: unknown): string {
  return `${JSON.stringify(value, null, 1)}\n`;
}

/** Returns the names of objects. */
export function namesOf(
  { services, endpointSlices, nodes, serviceCIDRs }: DaemonObjects,
  nodeName: string,
): NamesByKind {
  const qualified = services.map(({ name }) => name.split("/"));
  const endpoints = endpointSlices.flatMap((slice) => [...slice.endpoints]);
  return {
    node: [nodeName, ...endpoints.map((endpoint) => endpoint.nodeName), ...nodes.map(({ name }) => name)],
    zone: [...endpoints.map(({ zone }) => zone), ...endpoints.flatMap(({ zoneHints }) => zoneHints)],
    namespace: qualified.map(([namespace = ""]) => namespace),
    service: qualified.map(([, name = ""]) => name),
    pod: endpoints.flatMap(({ pod }) => pod.split("/").at(-1) ?? ""),
    port: services.flatMap((service) => service.ports.map(({ name }) => name)),
    slice: endpointSlices.map(({ name }) => name),
    "service-cidr": serviceCIDRs.map(({ name }) => name),
  };
}

const BLOCK = 512;

/** Two empty blocks end an archive. */
const ARCHIVE_END = gzipSync(Buffer.alloc(2 * BLOCK));

/**
 * Creates a gzipped tar archive of files that only their owner can read. Takes one file after the other, and
 * keeps it compressed: each is a member of the gzip file.
 * @param modified modification time of every file, milliseconds since 1970
 */
export function archiveOf(files: Iterable<BundleFile>, modified: number): Uint8Array {
  const attrs = { mode: "600", uid: 0, gid: 0, mtime: modified };
  const members = Array.from(files, ({ name, text }) => {
    const data = Buffer.from(text);
    const archive = createTar([{ name, data }], { attrs });
    // nanotar fills up the last record of an archive.
    return gzipSync(archive.subarray(0, BLOCK * (1 + Math.ceil(data.length / BLOCK))));
  });
  return Buffer.concat([...members, ARCHIVE_END]);
}
