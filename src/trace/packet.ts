import type { Family } from "../base/family.ts";

/** The first packet of a connection (or a later one), as it arrives at the node. */
export interface Packet {
  readonly from: {
    readonly address: string;
    /** A pod of this node, somewhere else, or a process of the node itself. */
    readonly at: "pod" | "outside" | "node";
    /** The interface it arrives on; absent when not known. The node's own packets have none. */
    readonly iifname?: string;
  };
  readonly to: string;
  readonly port: number;
  readonly protocol: "tcp" | "udp" | "sctp";
  /**
   * `established` packets pass no nat chains; unless `endpoint` has the translation that their connection got, it is not
   * known here, and `to` is the address after it. `new` when absent.
   */
  readonly conntrack?: "new" | "established";
  /** Of an established connection that was translated: its endpoint. The packet goes from client to endpoint. */
  readonly endpoint?: Destination;
  /** Where the packet is the answer to the first one of a connection: that connection. `from` is its endpoint then. */
  readonly answers?: AnsweredConnection;
}

/** A connection as the kernel knows it, once its first packet has passed all hooks. */
export interface AnsweredConnection {
  readonly packet: Packet;
  readonly endpoint: Destination;
  readonly isTranslated: boolean;
  readonly isMasqueraded: boolean;
}

/** The facts about the node that routing needs. */
export interface Host {
  /** Addresses of the node's interfaces, loopback apart; canonical. */
  readonly localAddresses: ReadonlySet<string>;
  /** Returns the interface to which an address is routed; undefined when that is not known. */
  readonly interfaceTo?: (address: string) => string | undefined;
}

/** An address and port that a packet may be sent to. */
export interface Destination {
  readonly address: string;
  readonly port: number;
}

/** The family whose table a packet meets. */
export function familyOfPacket(packet: Packet): Family {
  return packet.to.includes(":") ? "ip6" : "ip";
}

/** Whether an address is a loopback address (RFC 1122, RFC 4291). */
export function isLoopback(address: string): boolean {
  return address.startsWith("127.") || address === "::1";
}

/** Whether the node itself owns an address: `fib ... type local`, and what goes to the input hook. */
export function isLocal(host: Host, address: string): boolean {
  return host.localAddresses.has(address) || isLoopback(address);
}
