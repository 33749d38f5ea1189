import { AppError } from "../../base/errors.ts";
import { FAMILIES } from "../../base/family.ts";
import { groupBy } from "../../base/group-by.ts";
import { FEATURES } from "../../features/registry.ts";
import {
  lastPacketAt,
  type RefusalEntry,
  type RefusalReader,
  type SeenRefusal,
} from "../../features/seam/refusals.ts";
import { openTables } from "../../kernel/netlink-tables.ts";
import type { Nft } from "../../kernel/nft.ts";
import { declaredTable } from "../../kernel/read-kernel.ts";
import { systemClock } from "../../kernel/system-clock.ts";
import type { TableReader } from "../../kernel/table-reader.ts";
import { namespaceOf } from "../../model/ids.ts";
import { compareAddresses } from "../../model/ip.ts";
import { podNames } from "../../model/pod-names.ts";
import { AllowedClients, type FeatureRefusal, refusedFrontend } from "../../ruleset/refusal-causes.ts";
import { askDaemon, type RunningDaemon } from "../../socket/daemon-client.ts";
import { explain } from "../explain/explain.ts";
import type { ExplainInput } from "../explain/explain-input.ts";
import type { Verdict } from "../explain/explanation.ts";
import { matchOf, servicesAt } from "../explain/match.ts";
import { connectionOf } from "../explain/packet.ts";
import { isNamed, type ServiceArgument } from "../explain/query.ts";

/** The refusals of one destination, with their cause as in `explain`. */
export type RefusedDestination = Readonly<ReturnType<typeof explained>>;

/** A client whose packets were refused or dropped. */
export type RefusedClient = RefusedDestination["clients"][number];

/** Selects the refusals to report. */
export interface RefusalFilter {
  readonly namespace?: string | undefined;
  readonly service?: ServiceArgument | undefined;
  readonly client?: string | undefined;
}

/** Maximum number of destinations to explain. More of them mean a port scan, which the latest ones show. */
export const MOST_DESTINATIONS = 1000;

/**
 * Groups the recorded refusals by destination, the latest first, and adds the causes. The kernel does not
 * record causes: the one given is that of a new connection of the latest client.
 * @param now wall clock, milliseconds since 1970
 */
export function explainRefusals(
  entries: readonly SeenRefusal[],
  input: ExplainInput,
  filter: RefusalFilter,
  now: number,
): RefusedDestination[] {
  const pods = podNames(input.cache);
  const allowed = new AllowedClients();
  const wanted = entries.filter(({ client }) => filter.client === undefined || client === filter.client);
  const groups = groupBy(wanted, ({ address, protocol, port }) => `${address} ${protocol} ${port}`);
  return [...groups.values()]
    .map((group) => group.sort(byLastPacket))
    .sort(([a], [b]) => byLastPacket(a as RefusalEntry, b as RefusalEntry))
    .filter((group) => isWanted(group[0] as RefusalEntry, input, filter))
    .slice(0, MOST_DESTINATIONS)
    .map((group) => explained(group, input, pods, allowed, now));
}

function byLastPacket(a: RefusalEntry, b: RefusalEntry): number {
  return a.silentFor - b.silentFor || compareAddresses(a.client, b.client) || a.port - b.port;
}

function isWanted(entry: RefusalEntry, input: ExplainInput, { namespace, service }: RefusalFilter): boolean {
  if (namespace === undefined && service === undefined) return true;
  const port = matchOf(connectionFor(entry, input), input)?.port;
  // For a port that is not served, users look for the Service that has the address.
  const names =
    port === undefined ? servicesAt(entry.address, input).map(({ name }) => name) : [port.service.name];
  return (
    (namespace === undefined || names.some((name) => namespaceOf(name) === namespace)) &&
    (service === undefined || (port === undefined ? names.includes(service.service) : isNamed(port, service)))
  );
}

function connectionFor({ client, address, protocol, port }: RefusalEntry, input: ExplainInput) {
  return connectionOf({ fromAddress: client, to: address, protocol, port }, input);
}

function explained(
  group: readonly SeenRefusal[],
  input: ExplainInput,
  pods: ReadonlyMap<string, string>,
  allowed: AllowedClients,
  now: number,
) {
  const latest = group[0] as RefusalEntry;
  const connection = connectionFor(latest, input);
  const match = matchOf(connection, input);
  const { result, ...reason } =
    refusedVerdict(latest, input, allowed) ?? explain(connection, input, "brief").verdict;
  const { address, port, protocol } = latest;
  return {
    address,
    port,
    protocol,
    /** Absent if no Service serves the destination. */
    service: match?.port.service.name,
    servicePort: match?.port.spec.name,
    packets: group.reduce((sum, { packets }) => sum + packets, 0),
    /** RFC 3339: when the first packet of any client came; absent if that is unknown for one of them. */
    firstAt: firstOf(group, now),
    lastAt: timeText(lastPacketAt(latest, now)),
    /** The latest first. */
    clients: group.map((entry) => ({
      address: entry.client,
      // A Pod in the host's network shares its address with all programs of the host.
      pod: input.host.localAddresses.has(entry.client) ? "" : (pods.get(entry.client) ?? ""),
      packets: entry.packets,
      /** RFC 3339: the time of the first packet, up to half a minute late; absent if it is not recorded. */
      firstAt: firstOf([entry], now),
      lastAt: timeText(lastPacketAt(entry, now)),
    })),
    /** The outcome of such a connection now; `served` if the cause is gone. */
    now: result,
    ...reason,
  };
}

/** The verdict about a client that would be served now, but that a feature refused; undefined for others. */
function refusedVerdict(
  entry: RefusalEntry,
  { state }: ExplainInput,
  allowed: AllowedClients,
): Verdict | undefined {
  const ofFamily = state.families[entry.family];
  if (ofFamily === undefined) return undefined;
  const { port, cause } = refusedFrontend(ofFamily, entry, allowed);
  const words = FEATURES.find(({ name }) => name === cause)?.words?.refused;
  const refused = port && words?.(port, entry.client);
  return refused && { result: "varies", ...refused, cause: cause as FeatureRefusal };
}

/** When the first packet of some refusals came; undefined if one of them does not have that time. */
function firstOf(entries: readonly SeenRefusal[], now: number): string | undefined {
  let first = Number.POSITIVE_INFINITY;
  for (const entry of entries) {
    if (entry.firstAt === undefined) return undefined;
    // Last times have whole seconds, and could be before the first ones.
    first = Math.min(first, entry.firstAt, lastPacketAt(entry, now));
  }
  return timeText(first);
}

function timeText(milliseconds: number): string {
  return new Date(milliseconds).toISOString();
}

/** The record of refusals; undefined without the feature that makes it. */
export const REFUSALS: RefusalReader | undefined = FEATURES.find(({ refusals }) => refusals)?.refusals;

/** The refusals that the kernel remembers. */
export type SeenRefusals = Readonly<Awaited<ReturnType<typeof readSeenRefusals>>>;

/**
 * Reads the refusals from the daemon, or from the kernel if there is no daemon that watches them. A daemon
 * knows the first times of refusals since its start.
 * @throws AppError as nft does; HOST if nothing is recorded, or if the daemon gives no usable answer
 */
export async function readSeenRefusals(nft: Nft, daemon: RunningDaemon | undefined) {
  const answer = daemon === undefined ? undefined : await askDaemon(daemon.socket, "refusals");
  if (answer?.refusals !== undefined) return { entries: answer.refusals, isWatched: true };
  const { tables, close } = await openTables(nft, systemClock);
  try {
    const entries = await REFUSALS?.read(tables, FAMILIES, systemClock.now());
    if (entries === undefined) throw notRecorded(await hasTable(tables));
    return { entries, isWatched: false };
  } finally {
    close();
  }
}

async function hasTable(tables: TableReader): Promise<boolean> {
  const found = await Promise.all(FAMILIES.map((family) => declaredTable(tables, family)));
  return found.some((table) => table !== undefined);
}

function notRecorded(isProgrammed: boolean): AppError {
  const [why, hint] = isProgrammed
    ? ["nft-proxy runs with --refusal-log-size=0", "nft-proxy explain says why a connection is refused"]
    : [
        "the kernel has no table of nft-proxy",
        "check whether nft-proxy run works on this node, and read its log",
      ];
  return new AppError("HOST", `refusals are not recorded on this host: ${why}`, { hint });
}
