import { METRICS_PORT } from "../../config/defaults.ts";
import type { ListenAddress, ProxyOptions } from "../../config/options.ts";
import { allLocalAddresses } from "../../kernel/addresses.ts";
import { hostFamilies, onlineCores } from "../../kernel/host.ts";
import { Nft } from "../../kernel/nft.ts";
import { conntrackSettings } from "../../kernel/sysctl.ts";
import { TABLE_NAME } from "../../nft/ast/ruleset.ts";
import { localUrl, type RunningDaemon, runningDaemon } from "../daemon-socket/running-daemon.ts";
import { judgeCalico } from "./calico-check.ts";
import { judgeCapabilities } from "./capability-check.ts";
import { type DaemonFact, judgeDaemon } from "./daemon-check.ts";
import type { HostDiagnostic } from "./diagnostic.ts";
import type { DoctorHost } from "./doctor-host.ts";
import { judgeFirewalls } from "./firewall-check.ts";
import {
  gatherChains,
  gatherConntrackTool,
  gatherDaemon,
  gatherHostNfts,
  gatherKernel,
  gatherNft,
  gatherProxyMode,
  gatherSettings,
  gatherTraces,
} from "./gather.ts";
import { judgeKernel, judgeModules } from "./kernel-check.ts";
import { judgeMigration } from "./migration-check.ts";
import type { MigrationFacts } from "./migration-facts.ts";
import { judgeHostNfts, judgeNft } from "./nft-check.ts";
import { judgeOtherProxies } from "./other-proxy-check.ts";
import { judgeConntrackTable, judgeSettings } from "./settings-check.ts";
import { judgeClusterCidr, judgeConntrackTool, judgeFamilies } from "./support-check.ts";

/**
 * Examines a host for everything that our rules need, and for everything that breaks them. Changes nothing, never rejects.
 * @param migrating also what changes for the clients of these when nft-proxy takes this node over from kube-proxy
 */
export async function examineHost(
  host: DoctorHost,
  options: ProxyOptions,
  migrating?: MigrationFacts["objects"],
): Promise<HostDiagnostic[]> {
  const nft = new Nft({ path: options.nftPath, run: host.run });
  const families = await hostFamilies(host.files);
  const nftFact = await gatherNft(nft);
  const kernel = await gatherKernel(host);
  const settings = await gatherSettings(host);
  const chains = await gatherChains(nft);
  const traces = await gatherTraces(host, chains);
  const hasTables = chains?.some(({ table }) => table.endsWith(` ${TABLE_NAME}`));
  return [
    judgeNft(nftFact),
    ...judgeHostNfts(nftFact.version, await gatherHostNfts(host, options.nftPath)),
    judgeKernel(kernel),
    judgeModules(kernel, families),
    judgeCapabilities(await host.files.read("/proc/self/status").catch(() => undefined)),
    judgeFamilies(families),
    ...judgeSettings(settings, families),
    judgeConntrackTable(settings, await wantedConnections(host, options)),
    judgeConntrackTool(await gatherConntrackTool(host)),
    ...judgeOtherProxies(traces),
    ...judgeCalico(chains),
    ...judgeFirewalls(chains),
    ...judgeClusterCidr(options),
    judgeDaemon(await daemonFact(host, options), hasTables),
    ...(migrating === undefined
      ? []
      : judgeMigration(await migrationFacts(host, options, { traces, settings, objects: migrating }))),
  ];
}

/** Where kube-proxy tells its mode by default. */
const KUBE_PROXY_METRICS: ListenAddress = { address: "127.0.0.1", port: METRICS_PORT };

/** How the daemon of this network namespace does: from its health checks, and its socket where that answers. */
async function daemonFact(host: DoctorHost, { healthzBindAddress, daemonSocket }: ProxyOptions): Promise<DaemonFact> {
  const daemon = await runningDaemon(daemonSocket).catch(() => undefined);
  const problem = daemon?.isHere === true ? daemon.state.sync.problem : undefined;
  const fact =
    healthzBindAddress === undefined
      ? uncheckedFact(daemonSocket, daemon)
      : await gatherDaemon(host, localUrl(healthzBindAddress));
  return fact.kind === "silent" || problem === undefined ? fact : { ...fact, problem };
}

function uncheckedFact(socket: string, daemon: RunningDaemon | undefined): DaemonFact {
  if (daemon?.isHere === true) return { kind: "unchecked", socket };
  return { kind: "silent", url: socket || "its socket", reason: "its health checks are switched off" };
}

async function migrationFacts(
  host: DoctorHost,
  { metricsBindAddress }: ProxyOptions,
  known: Pick<MigrationFacts, "traces" | "settings" | "objects">,
): Promise<MigrationFacts> {
  return {
    ...known,
    answeredMode: await gatherProxyMode(host, localUrl(metricsBindAddress ?? KUBE_PROXY_METRICS)),
    hostAddresses: await allLocalAddresses(host.files).catch(() => []),
  };
}

/** The size of the conntrack table that the options make, 0 when they leave it alone. */
async function wantedConnections({ files }: DoctorHost, { conntrack }: ProxyOptions): Promise<number> {
  const made = conntrackSettings(conntrack, await onlineCores(files, 1));
  return made.find(({ path }) => path.endsWith("/nf_conntrack_max"))?.value ?? 0;
}
