import type { Flow, FlowPlace, FlowTable } from "../../src/kernel/conntrack.ts";
import { familyOf } from "../../src/model/ip.ts";

/** Returns a TCP connection from a client to a ClusterIP and its endpoint. */
export function flow(options: Partial<Flow>): Flow {
  const client = { address: "10.244.1.9", port: 20002 };
  return {
    protocol: "tcp",
    state: "established",
    client,
    destination: { address: "10.96.0.10", port: 80 },
    replySource: { address: "10.244.1.5", port: 8080 },
    replyDestination: client,
    remaining: 86_390,
    id: 1,
    zone: undefined,
    mark: 0,
    sent: undefined,
    received: undefined,
    startedAt: undefined,
    stoppedAt: undefined,
    isAnswered: true,
    ...options,
  };
}

/** A fake table of flows. */
export class FakeFlowTable implements FlowTable {
  flows: readonly Flow[] = [];
  listings = 0;
  /** Those of the last listing. */
  places: readonly FlowPlace[] = [];
  deleted: Flow[] = [];
  /** The number of flows of each deletion. */
  readonly deletions: number[] = [];
  /** The number of flows of each reading of some. */
  readonly readings: number[] = [];
  error: Error | undefined;
  /** Called before a listing ends. */
  whileListed: () => void = () => {};

  async *list(protocol: Flow["protocol"] | undefined, places: readonly FlowPlace[]): AsyncIterable<Flow> {
    this.listings += 1;
    this.places = places;
    if (this.error !== undefined) throw this.error;
    yield* this.flows.filter(
      (one) => one.protocol === (protocol ?? one.protocol) && places.some((place) => isAt(place, one)),
    );
    this.whileListed();
  }

  async current(flows: readonly Flow[]): Promise<readonly Flow[]> {
    this.readings.push(flows.length);
    if (this.error !== undefined) throw this.error;
    const sought = new Set(flows.map(({ client }) => JSON.stringify(client)));
    return this.flows.filter(({ client }) => sought.has(JSON.stringify(client)));
  }

  async expireFlows(flows: readonly Flow[]): Promise<void> {
    this.deleted.push(...flows);
    this.deletions.push(flows.length);
    this.flows = this.flows.filter((flow) => !flows.includes(flow));
  }
}

function isAt({ family, address, port }: FlowPlace, { destination }: Flow): boolean {
  return (
    family === familyOf(destination.address) &&
    (address ?? destination.address) === destination.address &&
    (port ?? destination.port) === destination.port
  );
}
