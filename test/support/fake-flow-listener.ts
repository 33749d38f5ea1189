import type { Flow, FlowChange } from "../../src/kernel/conntrack.ts";
import type { FlowHandlers, StartFlowListener } from "../../src/kernel/flow-listener.ts";

/** A fake of the kernel's notifications about flows. */
export class FakeFlowListener {
  /** The number of changes that the kernel dropped. */
  dropped = 0;
  starts = 0;
  /** The reason why listening ends before it begins, if it does. */
  startFailure: unknown;
  /** Undefined while nobody listens. */
  #handlers: FlowHandlers | undefined;

  readonly listen: StartFlowListener = (handlers) => {
    this.starts += 1;
    this.#handlers = handlers;
    if (this.startFailure !== undefined) this.fail(this.startFailure);
    return {
      ready: Promise.resolve(this.startFailure === undefined),
      dropped: async () => this.dropped,
      stop: () => {
        this.#handlers = undefined;
      },
    };
  };

  get isHeard(): boolean {
    return this.#handlers !== undefined;
  }

  /** Reports a change as the kernel would, unless nobody wants it in this state. */
  report(change: FlowChange, flow: Flow): void {
    if (change === "created" || this.#handlers?.wants(change, flow)) this.#handlers?.onFlow(change, flow);
  }

  /** Ends the listening. */
  fail(reason: unknown): void {
    const handlers = this.#handlers;
    this.#handlers = undefined;
    handlers?.onEnd(reason);
  }
}
