import type { Flow, FlowPlace, FlowTable } from "../../src/kernel/conntrack.ts";
import { familyOf } from "../../src/model/ip.ts";

/** A fake table of flows. */
export class FakeFlowTable implements FlowTable {
  flows: readonly Flow[] = [];
  listings = 0;
  /** Those of the last listing. */
  places: readonly FlowPlace[] = [];
  deleted: Flow[] = [];
  /** The number of flows of each deletion. */
  readonly deletions: number[] = [];
  error: Error | undefined;
  /** Called before a listing ends. */
  whileListed: () => void = () => {};

  async *udpFlows(places: readonly FlowPlace[]): AsyncIterable<Flow> {
    this.listings += 1;
    this.places = places;
    if (this.error !== undefined) throw this.error;
    yield* this.flows.filter((flow) => places.some((place) => isAt(place, flow)));
    this.whileListed();
  }

  async *unansweredConnections(): AsyncIterable<Flow> {
    yield* this.flows.filter(({ protocol }) => protocol === "tcp");
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
