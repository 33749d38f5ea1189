import type { Family } from "../base/family.ts";

/** The protocol of an echo request, by nft's name. */
export type EchoProtocol = "icmp" | "icmpv6";

/** The first packet of a connection (or a later one), as it arrives at the node; or an echo request. */
export interface Packet {
  readonly from: {
    readonly address: string;
    /** A pod of this node, somewhere else, or a process of the node itself. */
    readonly at: "pod" | "outside" | "node";
    /** The incoming interface; absent if not known. The node's own packets have none. */
    readonly iifname?: string;
    /**
     * Whether the address represents all clients of its kind: a hash over it is then treated as a random
     * number.
     */
    readonly isAssumed?: boolean;
  };
  readonly to: string;
  /** Of an echo request, its id: connection tracking distinguishes requests by it. */
  readonly port: number;
  /** An ICMP packet is an echo request, or its answer. */
  readonly protocol: "tcp" | "udp" | "sctp" | EchoProtocol;
  /**
   * `established` packets pass no nat chains. Without `endpoint`, their translation is not known, and `to` is
   * the address after it. `new` if absent.
   */
  readonly conntrack?: "new" | "established";
  /** The endpoint of an established, translated connection. The packet goes from client to endpoint. */
  readonly endpoint?: Destination;
  /** The connection, if the packet is the answer to its first one. `from` is then its endpoint. */
  readonly answers?: AnsweredConnection;
}

/** A connection as the kernel knows it, once its first packet has passed all hooks. */
export interface AnsweredConnection {
  readonly packet: Packet;
  readonly endpoint: Destination;
  readonly isTranslated: boolean;
  readonly isMasqueraded: boolean;
}

/** The facts about the node for routing. */
export interface Host {
  /** Addresses of the node's interfaces except loopback; canonical. */
  readonly localAddresses: ReadonlySet<string>;
  /** Returns the interface for the route to an address; undefined if not known. */
  readonly interfaceTo?: (address: string) => string | undefined;
}

/** An address and port that a packet may be sent to. */
export interface Destination {
  readonly address: string;
  readonly port: number;
}

/** The family of a packet. */
export function familyOfPacket(packet: Packet): Family {
  return packet.to.includes(":") ? "ip6" : "ip";
}

/** Whether a protocol is that of echo requests. */
export function isEcho(protocol: string): protocol is EchoProtocol {
  return protocol === "icmp" || protocol === "icmpv6";
}

/** Whether an address is a loopback address (RFC 1122, RFC 4291). */
export function isLoopback(address: string): boolean {
  return address.startsWith("127.") || address === "::1";
}

/**
 * Whether the node itself owns an address: `fib ... type local`, and the destinations of packets in the input
 * hook.
 */
export function isLocal(host: Host, address: string): boolean {
  return host.localAddresses.has(address) || isLoopback(address);
}
