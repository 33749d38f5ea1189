import { messageOf } from "../../base/errors.ts";
import { FAMILIES } from "../../base/family.ts";
import type { ListenAddress } from "../../config/addresses.ts";
import { METRICS_PORT } from "../../config/composed-options.ts";
import type { ProxyOptions } from "../../config/options.ts";
import { workingFeatures } from "../../features/selection.ts";
import { hostAddresses } from "../../kernel/addresses.ts";
import { onlineCores } from "../../kernel/host.ts";
import { type Nft, nftProgram } from "../../kernel/nft.ts";
import { conntrackSettings } from "../../kernel/sysctl.ts";
import { TABLE_NAME } from "../../nft/ast/ruleset.ts";
import { localUrl, runningDaemon } from "../../socket/daemon-client.ts";
import { supportedOptions, unsupportedFeatures } from "../../sync/supported-options.ts";
import { type DaemonFact, judgeDaemon } from "./daemon-check.ts";
import { type FeatureCheck, type HostFinding, named, warning } from "./finding.ts";
import { judgeFirewalls } from "./firewall-check.ts";
import {
  type DoctorHost,
  gatherFacts,
  gatherHealth,
  gatherProxyMode,
  type HealthFact,
  type HostFacts,
} from "./host-facts.ts";
import { judgeMigration, type MigrationFacts } from "./migration-check.ts";
import { judgeCalico, judgeCostlyTables, judgeOtherProxies } from "./other-proxy-check.ts";
import { judgeClusterCidr, judgeSettings, SETTING_PATHS, type UsedFamilies } from "./settings-check.ts";
import { judgeFeatures, judgeSystem } from "./system-check.ts";

/** What the caller already knows, and what to check. */
export interface ExaminationOptions {
  /** The options are only defaults, so they are not checked: those of the daemon may differ. */
  readonly areDefaults?: boolean;
  /**
   * Why the daemon gave no usable answer on its socket. It is not asked again, because a hanging daemon takes
   * 10 s.
   */
  readonly socketProblem?: string | undefined;
  /**
   * Also report what changes for clients of these Services when nft-proxy replaces kube-proxy on this node.
   */
  readonly migrating?: MigrationFacts["objects"] | undefined;
}

/**
 * Checks a host for everything that our rules need, and for everything that breaks them. Changes nothing.
 * @throws AppError HOST as {@link hostFamilies}
 */
export async function examineHost(
  host: DoctorHost,
  options: ProxyOptions,
  { areDefaults = false, socketProblem, migrating }: ExaminationOptions = {},
): Promise<HostFinding[]> {
  const nft = nftProgram({ path: options.nftPath, run: host.run });
  const facts = await gatherFacts(host, nft, SETTING_PATHS);
  const { chains } = facts;
  const hasTables = chains?.some(({ table }) => table.endsWith(` ${TABLE_NAME}`));
  const used = areDefaults ? undefined : usedFamilies(options);
  const wanted = areDefaults ? 0 : await wantedConnections(host, options);
  return [
    ...judgeSystem({ ...facts, used }),
    ...judgeSettings({ ...facts, used, wantedConnections: wanted }),
    ...judgeOtherProxies(facts),
    ...judgeCostlyTables(facts.costlyTables),
    ...judgeCalico(chains),
    ...judgeFirewalls(chains),
    ...(facts.nft.problem === undefined ? await judgeOptions(nft, options, facts) : []),
    ...(areDefaults ? [] : judgeClusterCidr(options)),
    ...judgeDaemon({ ...(await daemonFact(host, options, socketProblem)), hasTables }),
    ...(migrating === undefined
      ? []
      : judgeMigration({ ...facts, ...(await kubeProxyFacts(host, options)), objects: migrating })),
  ];
}

/** Warns about features that nft or the kernel does not support, and returns what features find. */
async function judgeOptions(
  nft: Nft,
  options: ProxyOptions,
  { chains, kernel }: Pick<HostFacts, "chains" | "kernel">,
): Promise<HostFinding[]> {
  const unsupported = await unsupportedFeatures(nft, options).catch(messageOf);
  if (typeof unsupported === "string") {
    const means = "it is unknown whether nft and this kernel support the options";
    const action = "run `nft-proxy doctor` again when the node is less busy";
    return named("nft", [warning(unsupported, means, action)]);
  }
  return [
    ...unsupported.flatMap(({ name, missing: { message, hint }, consequence }) =>
      named(name as FeatureCheck, [warning(message, consequence, hint)]),
    ),
    ...judgeFeatures({ kernel, chains }, workingFeatures(supportedOptions(options, unsupported))),
  ];
}

/** Returns the families of the cluster's pods according to the options; undefined if these name none. */
function usedFamilies({ clusterCIDRs }: ProxyOptions): UsedFamilies {
  const used = FAMILIES.filter((family) => clusterCIDRs[family].length > 0);
  return used.length === 0 ? undefined : used;
}

/** Default addresses of kube-proxy's mode, for a bindAddress of IPv4 and of IPv6. */
const KUBE_PROXY_ADDRESSES: readonly ListenAddress[] = ["127.0.0.1", "::1"].map((address) => ({
  address,
  port: METRICS_PORT,
}));

/** Reads the state of the daemon of this network namespace from its socket and its health checks. */
async function daemonFact(
  host: DoctorHost,
  { healthzBindAddress, daemonSocket }: ProxyOptions,
  socketProblem: string | undefined,
): Promise<Omit<DaemonFact, "hasTables">> {
  const daemon = socketProblem ?? (await runningDaemon(daemonSocket).catch(messageOf));
  const health: HealthFact =
    healthzBindAddress === undefined
      ? { kind: "off" }
      : await gatherHealth(host, localUrl(healthzBindAddress));
  if (typeof daemon === "string") return { health, socketProblem: daemon };
  if (daemon?.isHere !== true) return { health };
  const { dryRun, problems } = daemon.state;
  return { health, socket: { path: daemon.socket, dryRun, problems } };
}

/** Facts that only a migration needs. */
async function kubeProxyFacts(
  host: DoctorHost,
  { metricsBindAddress }: ProxyOptions,
): Promise<Pick<MigrationFacts, "answeredMode" | "hostAddresses">> {
  const metrics = [metricsBindAddress, ...KUBE_PROXY_ADDRESSES].flatMap((one) =>
    one ? [localUrl(one)] : [],
  );
  return {
    answeredMode: await gatherProxyMode(host, metrics),
    hostAddresses: await hostAddresses(host.files).then(
      ({ local }) => local,
      () => undefined,
    ),
  };
}

/** Returns the conntrack table size that the options set; 0 if they do not change it. */
async function wantedConnections({ files }: DoctorHost, { conntrack }: ProxyOptions): Promise<number> {
  const made = conntrackSettings(conntrack, await onlineCores(files));
  return made.find(({ path }) => path.endsWith("/nf_conntrack_max"))?.value ?? 0;
}
