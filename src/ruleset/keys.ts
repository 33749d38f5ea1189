import { assertNever } from "../base/errors.ts";
import { type ByFamily, FAMILIES, FAMILY_NAMES, type Family } from "../base/family.ts";
import { socketText } from "../base/text.ts";
import { concat, masked, matches, meta, payload } from "../nft/ast/expression.ts";
import type { Expression, Statement } from "../nft/ast/json.ts";
import { canonicalAddresses } from "../nft/canonical/address.ts";
import { joinParts, splitParts } from "../nft/elements.ts";
import type { PortInterval } from "./interval-frontends.ts";
import type { FamilyContext } from "./node-context.ts";
import { PORT_PROTOCOLS } from "./sets.ts";

/** The packet's source and destination address. */
export const sourceAddress = (family: Family): Expression => payload(family, "saddr");
export const destinationAddress = (family: Family): Expression => payload(family, "daddr");

/**
 * Excludes protocols without ports. A named set, because each anonymous one is a set of the table, and the
 * kernel looks at all sets of a table for each change.
 */
export const HAS_PORTS: Statement = matches(meta("l4proto"), `@${PORT_PROTOCOLS}`);

/**
 * The address in the key of a NodePort, which has none of its own. No Service can have this address, and
 * packets to it are ignored: see static-chains.ts.
 */
export const ANY_ADDRESS: ByFamily<string> = { ip: "0.0.0.0", ip6: "::" };

/** The key of a frontend: `10.96.0.10 . tcp . 53`. */
export function frontendKey(address: string, protocol: string, port: number): string {
  return joinParts(address, protocol, port);
}

/** The key of an interval of ports at the address of a frontend: `10.96.0.10 . tcp . 8000-8099`. */
export function intervalKey(frontend: string, { first, last }: PortInterval): string {
  return joinParts(placeOfKey(frontend), `${first}-${last}`);
}

/** The address and protocol of a frontend: `10.96.0.10 . tcp`. */
export function placeOfKey(frontend: string): string {
  return splitParts(frontend).slice(0, 2).join(" . ");
}

/** The key of a NodePort: `0.0.0.0 . tcp . 30080`. */
export function nodePortKey(family: Family, protocol: string, port: number): string {
  return joinParts(ANY_ADDRESS[family], protocol, port);
}

/** The parts of a frontend's key. */
export interface FrontendParts {
  /** Undefined for a NodePort. */
  readonly address: string | undefined;
  readonly protocol: string;
  /** 1..65535; the first port of an interval. */
  readonly port: number;
  /** The last port of an interval; absent for a single port. */
  readonly lastPort?: number;
}

/** Reads the key of a frontend. */
export function parseFrontendKey(key: string): FrontendParts {
  const [address = "", protocol = "", ports = ""] = splitParts(key);
  const isNodePort = address === ANY_ADDRESS.ip || address === ANY_ADDRESS.ip6;
  const [port, lastPort] = ports.split("-").map(Number);
  const parts = { address: isNodePort ? undefined : address, protocol, port: port ?? 0 };
  return lastPort === undefined ? parts : { ...parts, lastPort };
}

/** Formats the port or ports of a frontend: `53`, `8000-8099`. */
export function portsText({ port, lastPort = port }: Pick<FrontendParts, "port" | "lastPort">): string {
  return lastPort === port ? String(port) : `${port}-${lastPort}`;
}

/** Formats a frontend's key: `10.96.0.10:53/udp`, `10.96.0.10:80-99/udp`, `NodePort 30080/tcp (IPv4)`. */
export function frontendText(key: string): string {
  const { protocol, port, ...parts } = parseFrontendKey(key);
  const { address } = parts;
  if (address !== undefined) return `${socketText(address, portsText({ port, ...parts }))}/${protocol}`;
  const family = FAMILIES.find((one) => key.startsWith(ANY_ADDRESS[one])) ?? "ip";
  return `NodePort ${port}/${protocol} (${FAMILY_NAMES[family]})`;
}

const PROTOCOL_AND_PORT: readonly Expression[] = [meta("l4proto"), payload("th", "dport")];

/** The parts of a frontend's key, as read from the packet. */
export function packetFrontend(family: Family): readonly Expression[] {
  return [destinationAddress(family), ...PROTOCOL_AND_PORT];
}

/** The key of a frontend, as read from the packet. */
export const packetFrontendKey = (family: Family): Expression => concat(...packetFrontend(family));

/** The key of a NodePort, as read from the packet: masked, as nft does not accept a constant there. */
export function packetNodePortKey(family: Family): Expression {
  return concat(masked(destinationAddress(family), ANY_ADDRESS[family]), ...PROTOCOL_AND_PORT);
}

/** The addresses of one or more CIDRs, in canonical form, so that comparisons with nft's rules work. */
export function addressSet(family: Family, cidrs: readonly string[]): Expression {
  return canonicalAddresses(family, cidrs.map(prefixOf));
}

function prefixOf(cidr: string): Expression {
  const slash = cidr.indexOf("/");
  return { prefix: { addr: cidr.slice(0, slash), len: Number(cidr.slice(slash + 1)) } };
}

/** Matches packets of this node itself. */
export const FROM_NODE: Statement = matches({ fib: { flags: ["saddr"], result: "type" } }, "local");

/**
 * Matches packets by whether they come from this cluster's pods.
 * @param compare `matches` for packets from pods, `differs` for others
 * @returns undefined if pods cannot be recognised
 */
export function byPodOrigin(
  { localTraffic, family }: Pick<FamilyContext, "localTraffic" | "family">,
  compare: typeof matches,
): Statement | undefined {
  switch (localTraffic.kind) {
    case "unknown":
      return undefined;
    case "sources":
      return compare(sourceAddress(family), addressSet(family, localTraffic.cidrs));
    case "interface":
      return compare(meta("iifname"), localTraffic.pattern);
    default:
      return assertNever(localTraffic);
  }
}

/**
 * The id of a service port, list or endpoint that the key of an element begins with; undefined for keys that
 * begin with an address or protocol.
 */
export function idOfKey(key: string): number | undefined {
  const [, id] = /^(\d+)(?: |$)/.exec(key) ?? [];
  return id === undefined ? undefined : Number(id);
}
