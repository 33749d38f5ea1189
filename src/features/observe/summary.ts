import { addToCount } from "../../base/group-by.ts";
import { ValuesByName } from "../../base/values-by-name.ts";
import type { Flow } from "../../kernel/conntrack.ts";
import { joinParts } from "../../nft/elements.ts";
import type { ExplainedRefusal } from "../seam/command.ts";
import type { Observation } from "./observer.ts";

/** Maximum number of Services, clients and endpoints that are counted separately, each. */
const MOST_COUNTED = 20_000;

/** Maximum number of names to show. */
const MOST_SHOWN = 5;

/**
 * No traffic so far. The traffic of a Service, client or endpoint is the number of its connections that began
 * or are open, and the bytes that clients sent and received in them, as far as the kernel counts these.
 */
const noTraffic = () => ({ connections: 0, sent: 0, received: 0 });

export type Traffic = ReturnType<typeof noTraffic>;

/** Counts traffic by name. Beyond a number of names, the rest is counted together. */
export class TrafficByName extends ValuesByName<string, Traffic> {
  readonly total = noTraffic();

  constructor(most: number = MOST_COUNTED) {
    super(most, noTraffic);
  }

  /** Counts a connection that began or is open. */
  addConnection(name: string): void {
    for (const counts of [this.total, this.of(name)]) counts.connections += 1;
  }

  /** Counts the bytes of an open or ended connection, if they are known. */
  addBytes(name: string, { sent, received }: Pick<Flow, "sent" | "received">): void {
    for (const counts of [this.total, this.of(name)]) {
      counts.sent += sent?.bytes ?? 0;
      counts.received += received?.bytes ?? 0;
    }
  }

  /** The first names by connections, then by bytes. */
  top(): [name: string, traffic: Traffic][] {
    const bytes = ({ sent, received }: Traffic) => sent + received;
    return [...this]
      .sort(([, a], [, b]) => b.connections - a.connections || bytes(b) - bytes(a))
      .slice(0, MOST_SHOWN);
  }
}

/** Sums up what a command has seen. Its memory is bounded. */
export class Summary {
  /** By the name of the service port. */
  readonly services = new TrafficByName();
  /** By address. */
  readonly clients = new TrafficByName();
  /** By target: see {@link targetText}. */
  readonly endpoints = new TrafficByName();
  /** Observations by event. */
  readonly events = new Map<Observation["event"], number>();
  refusedPackets = 0;

  add({ event, port, endpoint, flow }: Observation): void {
    addToCount(this.events, event, 1);
    const { address, port: number } = flow.replySource;
    const names = [port.name, flow.client.address, endpoint?.target ?? joinParts(address, number)] as const;
    for (const [index, traffic] of [this.services, this.clients, this.endpoints].entries()) {
      const name = names[index] ?? "";
      if (event === "began" || event === "open") traffic.addConnection(name);
      if (event !== "began") traffic.addBytes(name, flow);
    }
  }

  addRefusal({ clients }: Pick<ExplainedRefusal, "clients">): void {
    for (const { packets } of clients) this.refusedPackets += packets;
  }
}
