import { gunzipSync } from "node:zlib";
import { AppError, messageOf } from "../../base/errors.ts";
import { systemErrorCode } from "../../kernel/host.ts";
import type { Nft } from "../../kernel/nft.ts";
import { probeFeatures } from "../../kernel/probe.ts";
import { readListing } from "../../nft/canonical/parse.ts";
import { requiredFeatures } from "../../ruleset/required-features.ts";
import { BRIDGE_SETTINGS } from "./bridge-check.ts";
import type { HealthFact } from "./daemon-check.ts";
import type { DoctorHost } from "./doctor-host.ts";
import { type ForeignChain, foreignChains } from "./foreign-chain.ts";
import type { KernelFact } from "./kernel-check.ts";
import type { HostNftFact, NftFact } from "./nft-check.ts";
import type { ProxyTraces } from "./other-proxy-check.ts";
import { SETTING_PATHS, type Settings } from "./settings-check.ts";

const LIMITS = { timeoutMs: 10_000, maxOutputBytes: 100_000 };

const HOST_NFT = "/usr/sbin/nft";

/** Asks our nft for its version and for every feature that we need. Never rejects. */
export async function gatherNft(nft: Nft): Promise<NftFact> {
  const version = await nft.version().catch(() => undefined);
  try {
    await probeFeatures(nft, requiredFeatures());
    return { path: nft.path, version };
  } catch (error) {
    const hint = error instanceof AppError ? error.hint : undefined;
    return { path: nft.path, version, problem: { message: messageOf(error), hint } };
  }
}

/** The host's own nft beside ours, where there is one; undefined in a pod, which does not see the host's programs. */
export async function gatherHostNft({ run, isInPod }: DoctorHost, ourPath: string): Promise<HostNftFact[] | undefined> {
  if (isInPod) return undefined;
  const version = ourPath === HOST_NFT ? undefined : await versionOf(run, [HOST_NFT, "--version"]);
  return version === undefined ? [] : [{ path: HOST_NFT, version }];
}

/** The output of `conntrack --version`; undefined when it does not run. */
export async function gatherConntrackTool({ run }: DoctorHost): Promise<string | undefined> {
  return await versionOf(run, ["conntrack", "--version"]);
}

async function versionOf(run: DoctorHost["run"], [program = "", ...args]: readonly string[]) {
  const { exitCode, stdout } = await run(program, args, "", LIMITS);
  return exitCode === 0 ? stdout.trim() : undefined;
}

/** The kernel's release and, where it is to be had, its build configuration. */
export async function gatherKernel({ files, bytes }: DoctorHost): Promise<KernelFact> {
  const release = await files.read("/proc/sys/kernel/osrelease").then(
    (text) => text.trim(),
    () => undefined,
  );
  const config = await bytes("/proc/config.gz")
    .then((packed) => gunzipSync(packed).toString("utf8"))
    .catch(() => files.read(`/boot/config-${release}`))
    .catch(() => undefined);
  return { release, config };
}

/** The settings of /proc/sys that are judged, without those that this kernel lacks. */
export async function gatherSettings({ files }: DoctorHost): Promise<Settings> {
  const settings = new Map<string, number>();
  for (const path of [...SETTING_PATHS, ...Object.values(BRIDGE_SETTINGS)]) {
    const text = await files.read(path).catch(() => "");
    if (text.trim() !== "") settings.set(path, Number(text));
  }
  return settings;
}

/** Everybody's chains, without their rules; undefined when nft cannot list them. */
export async function gatherChains(nft: Nft): Promise<ForeignChain[] | undefined> {
  try {
    return foreignChains(readListing(await nft.listChains()));
  } catch {
    return undefined;
  }
}

/** The interfaces of this network namespace; unlike /sys/class/net, which may be that of another one's mount. */
export async function gatherInterfaces({ files }: DoctorHost): Promise<ReadonlySet<string>> {
  const text = await files.read("/proc/net/dev").catch(() => "");
  return new Set([...text.matchAll(/^ *(\S+?):/gm)].map(([, name = ""]) => name));
}

/** The traces of other service proxies besides `chains`. */
export async function gatherTraces(
  { files }: DoctorHost,
  chains: readonly ForeignChain[] | undefined,
  interfaces: ReadonlySet<string>,
): Promise<ProxyTraces> {
  const read = (path: string) => files.read(path).catch(() => "");
  const legacy = `${await read("/proc/net/ip_tables_names")}\n${await read("/proc/net/ip6_tables_names")}`;
  const servers = (await read("/proc/net/ip_vs")).matchAll(/^(?:TCP|UDP|SCTP|FWM) +\S+ +(\S+)/gm);
  return {
    chains,
    legacyTables: [...new Set(legacy.split(/\s+/).filter((name) => name !== ""))],
    ipvsSchedulers: [...servers].map(([, scheduler = ""]) => scheduler),
    interfaces,
  };
}

/**
 * The mode of a kube-proxy on this host, by its answer to `GET /proxyMode` at one of these URLs; undefined when none answers.
 * nft-proxy answers "nftables", too: that tells nothing.
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

/** Asks the health checks of the daemon that should listen at `base`, such as `http://127.0.0.1:10256`. Never rejects. */
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
