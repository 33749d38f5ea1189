import type { Flow, FlowTable } from "../../src/kernel/conntrack.ts";

/** A fake table of flows that behaves as with conntrack 1.4.8 and newer. */
export class FakeFlowTable implements FlowTable {
  flows: readonly Flow[] = [];
  listings = 0;
  deleted: Flow[] = [];
  /** The number of flows of each deletion. */
  readonly deletions: number[] = [];
  error: Error | undefined;
  /** Called before a listing ends. */
  whileListed: () => void = () => {};

  async *udpFlows(): AsyncIterable<Flow> {
    this.listings += 1;
    if (this.error !== undefined) throw this.error;
    yield* this.flows;
    this.whileListed();
  }

  async *unansweredConnections(): AsyncIterable<Flow> {
    yield* this.flows.filter(({ protocol }) => protocol === "tcp");
  }

  async expireFlows(flows: readonly Flow[]): Promise<void> {
    this.deleted.push(...flows);
    this.deletions.push(flows.length);
    this.remove((flow) => flows.includes(flow));
  }

  async deleteFlowsLike(_flows: readonly Flow[]): Promise<void> {
    throw new Error("there is nothing left to delete");
  }

  protected remove(isGone: (flow: Flow) => boolean): void {
    this.flows = this.flows.filter((flow) => !isGone(flow));
  }
}

/** A {@link FakeFlowTable} that behaves as with conntrack 1.4.7, which reports 0 added flows and no error. */
export class OldFlowTable extends FakeFlowTable {
  override async expireFlows(): Promise<void> {}

  override async deleteFlowsLike(flows: readonly Flow[]): Promise<void> {
    const kind = ({ destination, replySource }: Flow) => JSON.stringify([destination, replySource]);
    const kinds = new Set(flows.map(kind));
    this.deletions.push(kinds.size);
    this.remove((flow) => kinds.has(kind(flow)));
  }
}
