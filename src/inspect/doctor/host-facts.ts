import { readFile } from "node:fs/promises";
import { endianness } from "node:os";
import { gunzipSync } from "node:zlib";
import { evidenceOf, messageOf } from "../../base/errors.ts";
import type { Family } from "../../base/family.ts";
import type { HostChain } from "../../features/seam/feature.ts";
import { type HostFiles, hostFamilies, hostFiles, systemErrorCode } from "../../kernel/host.ts";
import type { Nft } from "../../kernel/nft.ts";
import { listChains, nftVersion } from "../../kernel/nft-listings.ts";
import { type CostlyTable, costlyTables } from "../../kernel/others-sets.ts";
import { probeNft } from "../../kernel/probe.ts";
import { type RunProcess, runProcess } from "../../kernel/process.ts";
import { interfaceNames } from "../../kernel/routes.ts";
import { systemClock } from "../../kernel/system-clock.ts";
import { socatVersion } from "../../kernel/versions.ts";
import { listedObjects } from "../../nft/canonical/parse.ts";
import { requiredFeatures } from "../../ruleset/required-features.ts";
import { getAnswer, type HttpAnswer } from "../http-answer.ts";

/** The doctor's access to a host, read-only. */
export interface DoctorHost {
  readonly files: HostFiles;
  /** A whole file as bytes. Rejects with the system's error. */
  bytes(path: string): Promise<Buffer>;
  readonly run: RunProcess;
  /** Whether we run in a pod: programs are then those of the image, not the host's. */
  readonly isInPod: boolean;
  /** As {@link getAnswer}. */
  readonly get: (url: string) => Promise<HttpAnswer>;
}

/** The host that we run on. */
export const doctorHost: DoctorHost = {
  files: hostFiles,
  bytes: (path) => readFile(path),
  run: runProcess,
  isInPod: process.env.KUBERNETES_SERVICE_HOST !== undefined,
  get: getAnswer,
};

/** The state of the health checks at `url`. */
export type HealthFact =
  | { readonly kind: "off" }
  | { readonly kind: "silent"; readonly url: string; readonly reason: string }
  | {
      readonly kind: "answers";
      readonly url: string;
      readonly healthz: HttpAnswer;
      readonly livez: HttpAnswer;
    };

const LIMITS = { timeoutMs: 10_000, maxOutputBytes: 100_000 };

const HOST_NFT = "/usr/sbin/nft";

/** Facts about a host that do not depend on the options, without any verdict. */
export type HostFacts = Readonly<Awaited<ReturnType<typeof gatherFacts>>>;

/**
 * Gathers all facts of a host. Changes nothing.
 * @param settingPaths settings in /proc/sys to read
 * @throws AppError HOST as {@link hostFamilies}
 */
export async function gatherFacts(host: DoctorHost, nft: Nft, settingPaths: readonly string[]) {
  const families: readonly Family[] = await hostFamilies(host.files);
  return {
    families,
    nft: await gatherNft(nft),
    hostNfts: await gatherHostNft(host, nft.path),
    kernel: await gatherKernel(host),
    /** The text of /proc/self/status; undefined when it cannot be read. */
    processStatus: await host.files.read("/proc/self/status").catch(() => undefined),
    settings: await gatherSettings(host, settingPaths),
    /** Those of this network namespace. /sys/class/net is not read, as it may belong to another one. */
    interfaces: new Set(await interfaceNames(host.files).catch(() => [])),
    /** Such as `1.8.0.3`; undefined if it does not run. */
    socatVersion: await socatVersion(host.run),
    chains: await gatherChains(nft),
    /** Tables of other software with very many sets; empty if they cannot be counted. */
    costlyTables: await costlyTables(nft, systemClock).catch((): readonly CostlyTable[] => []),
    ...(await gatherTraces(host)),
  };
}

/** Probes the version and the features that our transactions need of our nft. Never rejects. */
export async function gatherNft(nft: Nft) {
  const problemOf = (error: unknown) => ({ message: messageOf(error), hint: evidenceOf(error).hint });
  return {
    /** The configured path or name. */
    path: nft.path,
    /** The line of `nft --version`; undefined when it did not print one. */
    version: await nftVersion(nft).catch(() => undefined),
    /** Why it cannot be used; undefined if it can. */
    problem: await probeNft(nft, requiredFeatures()).then(() => undefined, problemOf),
  };
}

/**
 * Returns the host's own nft besides ours, if it has one, with the line of `nft --version`; undefined in a
 * pod, which cannot run programs of the host.
 */
export async function gatherHostNft(
  { run, isInPod }: DoctorHost,
  ourPath: string,
): Promise<readonly { readonly path: string; readonly version: string }[] | undefined> {
  if (isInPod) return undefined;
  if (ourPath === HOST_NFT) return [];
  const { exitCode, stdout } = await run(HOST_NFT, ["--version"], "", LIMITS);
  return exitCode === 0 ? [{ path: HOST_NFT, version: stdout.trim() }] : [];
}

/**
 * Reads the kernel's release, such as `6.12.48+deb13-amd64`, and the text of its build configuration;
 * undefined for what cannot be read.
 */
export async function gatherKernel({ files, bytes }: DoctorHost) {
  const release = await files.read("/proc/sys/kernel/osrelease").then(
    (text) => text.trim(),
    () => undefined,
  );
  const config = await bytes("/proc/config.gz")
    .then((packed) => gunzipSync(packed).toString("utf8"))
    .catch(() => files.read(`/boot/config-${release}`))
    .catch(() => undefined);
  return { release, config, isBigEndian: endianness() === "BE" };
}

/** Reads numbers in /proc/sys by path. Settings that this kernel lacks are absent. */
export async function gatherSettings(
  { files }: DoctorHost,
  paths: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  const settings = new Map<string, number>();
  for (const path of paths) {
    const text = await files.read(path).catch(() => "");
    if (text.trim() !== "") settings.set(path, Number(text));
  }
  return settings;
}

/** The chains of all software, without their rules; undefined if nft cannot list them. */
export async function gatherChains(nft: Nft): Promise<readonly HostChain[] | undefined> {
  return await listChains(nft)
    .then(foreignChains)
    .catch(() => undefined);
}

/** Returns the chains of a listing, of every family. Throws NFT_OUTPUT for a form that nft never prints. */
export function foreignChains(listing: string): HostChain[] {
  return listedObjects(listing).flatMap(({ kind, body }) => {
    if (kind !== "chain") return [];
    const { family, table, name, hook, prio, policy } = body;
    const chain = { table: `${family} ${table}`, name: String(name) };
    if (hook === undefined) return [chain];
    return [{ ...chain, base: { hook: String(hook), prio: Number(prio), policy: String(policy) } }];
  });
}

/**
 * Reads traces of other service proxies outside of nftables: the tables of the legacy iptables
 * (/proc/net/ip_tables_names and ip6_tables_names), and the scheduler of each virtual server of IPVS
 * (/proc/net/ip_vs).
 */
export async function gatherTraces({ files }: DoctorHost) {
  const read = (path: string) => files.read(path).catch(() => "");
  const legacy = `${await read("/proc/net/ip_tables_names")}\n${await read("/proc/net/ip6_tables_names")}`;
  const servers = (await read("/proc/net/ip_vs")).matchAll(/^(?:TCP|UDP|SCTP|FWM) +\S+ +(\S+)/gm);
  return {
    legacyTables: [...new Set(legacy.split(/\s+/).filter((name) => name !== ""))],
    ipvsSchedulers: [...servers].map(([, scheduler = ""]) => scheduler),
  };
}

/**
 * Returns the mode of a kube-proxy on this host from `GET /proxyMode` at one of these URLs; undefined if none
 * answers. "nftables" is ignored, because nft-proxy answers the same.
 */
export async function gatherProxyMode(
  { get }: DoctorHost,
  bases: readonly string[],
): Promise<"iptables" | "ipvs" | undefined> {
  for (const base of new Set(bases)) {
    const answer = await get(`${base}/proxyMode`).catch(() => undefined);
    const mode = answer?.body.trim();
    if (answer?.status === 200 && (mode === "iptables" || mode === "ipvs")) return mode;
  }
  return undefined;
}

/**
 * Reads the health checks of the daemon that should listen at `base`, such as `http://127.0.0.1:10256`. Never
 * rejects.
 */
export async function gatherHealth({ get }: DoctorHost, base: string): Promise<HealthFact> {
  try {
    const [healthz, livez] = [await get(`${base}/healthz`), await get(`${base}/livez`)];
    return { kind: "answers", url: base, healthz, livez };
  } catch (error) {
    return { kind: "silent", url: base, reason: silenceReason(error) };
  }
}

function silenceReason(error: unknown): string {
  if (error instanceof DOMException && error.name === "TimeoutError") return "no answer in time";
  return systemErrorCode(error instanceof Error && error.cause !== undefined ? error.cause : error);
}
