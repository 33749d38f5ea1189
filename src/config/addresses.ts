import { type ByFamily, byFamily, FAMILIES } from "../base/family.ts";
import { socketText } from "../base/text.ts";
import { canonicalAddress, canonicalCidr, familyOf, isLoopback } from "../model/ip.ts";

/** An address to listen on. IPv6 addresses are without brackets. */
export interface ListenAddress {
  /** Canonical; `0.0.0.0` or `::` for all interfaces. */
  readonly address: string;
  /** 1..65535 */
  readonly port: number;
}

/** The node addresses that serve NodePorts: all addresses that one of these three selects. */
export interface NodePortSelection {
  /** The node's primary address of each family. */
  readonly primary: boolean;
  /** The loopback address of a family (127.0.0.1, ::1), for TCP only: through userspace. */
  readonly localhost: ByFamily<boolean>;
  /** The addresses in these CIDRs, except loopback addresses. */
  readonly cidrs: ByFamily<readonly string[]>;
}

/** Whether a text is a port, or 0. */
export function isPort(text: string): boolean {
  return /^(?:0|[1-9]\d{0,4})$/.test(text) && Number(text) <= 65_535;
}

/** The value of a server that is switched off. */
const OFF: ListenAddress = { address: "0.0.0.0", port: 0 };

/**
 * Parses `10.0.0.1`, `10.0.0.1:80`, `fd00::1` or `[fd00::1]:80`.
 * @param defaultPort port if the text has none
 * @returns the address, with port 0 for a server that is switched off; undefined for any other text
 */
export function parseListenAddress(text: string, defaultPort: number): ListenAddress | undefined {
  const bare = canonicalAddress(text);
  if (bare !== undefined) return { address: bare, port: defaultPort };
  const [, bracketed, plain, portText = ""] = /^(?:\[([^\]]*)\]|([^:]*)):(.*)$/.exec(text) ?? [];
  const address = bracketed === undefined ? canonicalAddress(plain ?? "", "ip") : canonicalAddress(bracketed);
  return address !== undefined && isPort(portText) ? { address, port: Number(portText) } : undefined;
}

/** Formats `10.0.0.1:80` or `[fd00::1]:80`; `0.0.0.0:0` for a server that is switched off. */
export function formatListenAddress(listen: ListenAddress | undefined): string {
  const { address, port } = listen ?? OFF;
  return socketText(address, port);
}

const EVERY_ADDRESS: ByFamily<string> = { ip: "0.0.0.0/0", ip6: "::/0" };

/**
 * Parses the CIDR of the cluster's pods, or one per IP family separated by a comma.
 * @returns canonical CIDRs, none for ""; undefined for any other text, including two CIDRs of one family, of
 * which kube-proxy would ignore one
 */
export function parseClusterCIDRs(text: string): ByFamily<readonly string[]> | undefined {
  if (text === "") return { ip: [], ip6: [] };
  const lists = splitByFamily(text.split(","));
  return lists === undefined || lists.ip.length > 1 || lists.ip6.length > 1 ? undefined : lists;
}

const LOOPBACK: ByFamily<string> = { ip: "127.0.0.0/8", ip6: "::1/128" };

/**
 * The CIDRs that the words of `nodePortAddresses` other than `primary` stand for. Source:
 * cmd/kube-proxy/app/server.go, 1.37
 */
const WORDS: Readonly<Record<string, readonly string[]>> = {
  primary: [],
  localhost: Object.values(LOOPBACK),
  all: Object.values(EVERY_ADDRESS),
};

/**
 * Parses `nodePortAddresses`: CIDRs and the words `primary`, `localhost` and `all`, in any combination. As in
 * kube-proxy, an empty list means primary, a CIDR of loopback addresses means localhost in its family, and a
 * family without an entry uses every address.
 * @returns undefined if an entry is neither a word nor a CIDR
 */
export function parseNodePortAddresses(list: readonly string[]): NodePortSelection | undefined {
  const primary = list.length === 0 || list.includes("primary");
  const given = splitByFamily(
    list.flatMap((text) => (Object.hasOwn(WORDS, text) ? (WORDS[text] ?? []) : [text])),
  );
  if (given === undefined) return undefined;
  return {
    primary,
    localhost: byFamily((family) => given[family].some(isWithinLoopback)),
    cidrs: byFamily((family) => {
      if (given[family].length === 0 && !primary) return [EVERY_ADDRESS[family]];
      return given[family].filter((cidr) => !isWithinLoopback(cidr));
    }),
  };
}

/** A canonical CIDR that starts at a loopback address contains only loopback addresses. */
function isWithinLoopback(cidr: string): boolean {
  return isLoopback(cidr.slice(0, cidr.indexOf("/")));
}

/** Returns the list that {@link parseNodePortAddresses} parses to this selection. */
export function nodePortAddressList({ primary, localhost, cidrs }: NodePortSelection): string[] {
  const loopback =
    localhost.ip && localhost.ip6
      ? ["localhost"]
      : FAMILIES.flatMap((f) => (localhost[f] ? LOOPBACK[f] : []));
  return [...(primary ? ["primary"] : []), ...loopback, ...cidrs.ip, ...cidrs.ip6];
}

function splitByFamily(list: readonly string[]): ByFamily<readonly string[]> | undefined {
  const cidrs = list.map((text) => canonicalCidr(text)).filter((cidr) => cidr !== undefined);
  if (cidrs.length < list.length) return undefined;
  const unique = [...new Set(cidrs)];
  return byFamily((family) => unique.filter((cidr) => familyOf(cidr) === family));
}
