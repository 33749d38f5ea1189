import { TCP_FLAGS } from "../../nft/canonical/constant.ts";

/** The headers of a traced packet. */
export type TracedPacket = Readonly<ReturnType<typeof parsePacket>>;

/** A chain, with its table. */
export interface TracePlace {
  readonly family: string;
  readonly table: string;
  readonly chain: string;
}

/** A line of `nft monitor trace`. */
export type TraceLine = TracePlace & {
  /** 8 hexadecimal digits. The kernel reuses ids for later packets. */
  readonly id: string;
} & (
    | { readonly kind: "packet"; readonly packet: TracedPacket }
    /** A rule that matched; `verdict` is `continue` if it decided nothing. */
    | { readonly kind: "rule"; readonly rule: string; readonly verdict: string }
    /** The packet reached the end of a base chain. */
    | { readonly kind: "policy"; readonly verdict: string }
    /** Connection tracking (nft 1.1.4 or newer), the end of a chain, and lines of future versions. */
    | { readonly kind: "other" }
  );

/** Whether a line of nft (1.1.3, 1.1.7) reports lost messages of the kernel. */
export function isLossLine(line: string): boolean {
  return line.startsWith("# ERROR: We lost some netlink events");
}

const LINE = /^trace id ([0-9a-f]{8}) (\S+) (\S+) (\S+) (packet: |rule |unknown rule handle |policy )?(.*)$/;
const VERDICT = /^(.*) \(verdict ([^()]+)\)\s*$/;

/**
 * Parses a line of `nft monitor trace`. Its JSON output is not implemented (tried with 1.1.3 and 1.1.7).
 * @returns undefined for anything else
 */
export function parseTraceLine(line: string): TraceLine | undefined {
  const [, id, family = "", table = "", chain = "", kind, rest = ""] = LINE.exec(line) ?? [];
  if (id === undefined) return undefined;
  const place = { id, family, table, chain };
  switch (kind) {
    case "packet: ":
      return { ...place, kind: "packet", packet: parsePacket(rest) };
    case "rule ":
    case "unknown rule handle ": {
      const text = kind === "rule " ? rest : `unknown rule ${rest}`;
      const [, rule, verdict = ""] = VERDICT.exec(text) ?? [];
      return rule === undefined
        ? { ...place, kind: "other" }
        : { ...place, kind: "rule", rule, verdict: verdict.trim() };
    }
    case "policy ":
      return { ...place, kind: "policy", verdict: rest.split(" ", 1)[0] ?? "" };
    default:
      return { ...place, kind: "other" };
  }
}

const TRANSPORT = / (tcp|udp|udplite|sctp|dccp) sport (\d+) \1 dport (\d+)/;
const OTHER_TRANSPORT = / (icmpv6|icmp|igmp|esp|ah|comp) /;

function parsePacket(text: string) {
  const headers = ` ${text} `;
  const [, transport, sourcePort = "0", destinationPort = "0"] = TRANSPORT.exec(headers) ?? [];
  return {
    /** The incoming interface, "" for none; a number if the interface is gone. */
    input: fieldOf(headers, / iif(?:name)? "?([^" ]*)"? /),
    /** The outgoing interface, "" if not known yet. */
    output: fieldOf(headers, / oif(?:name)? "?([^" ]*)"? /),
    /** As nft names it: `tcp`, `udp`, `sctp`, `icmp`; "" if nft printed no transport header. */
    protocol: transport ?? fieldOf(headers, OTHER_TRANSPORT),
    source: fieldOf(headers, / ip6? saddr (\S+)/),
    destination: fieldOf(headers, / ip6? daddr (\S+)/),
    /** 0 if the protocol has no ports. */
    sourcePort: Number(sourcePort),
    destinationPort: Number(destinationPort),
    /** TCP flags in lower case, in the order of the header's bits: `syn`, `ack`. */
    flags: tcpFlags(fieldOf(headers, / tcp flags (?:== )?((?:0x[0-9a-f]+|\w+)(?: ?[|,] ?\w+)*) /)),
  };
}

function fieldOf(text: string, pattern: RegExp): string {
  return pattern.exec(text)?.[1] ?? "";
}

/** nft prints a single flag by name and several as a number; newer versions may print names. */
function tcpFlags(text: string): readonly string[] {
  const names = text.split(/[ |,]+/);
  const bits = text.startsWith("0x") ? Number.parseInt(text, 16) : 0;
  return Object.keys(TCP_FLAGS).filter(
    (name) => names.includes(name) || (bits & (TCP_FLAGS[name] ?? 0)) !== 0,
  );
}
