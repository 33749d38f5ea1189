import type { SyncReport, SyncSubscriber } from "../../sync/sync-report.ts";
import type { LoopbackProxy } from "./loopback-proxy.ts";
import { wantedNodePorts } from "./wanted-node-ports.ts";

/** Keeps the listeners of loopback NodePorts in step with the programmed rules. */
export class LoopbackSubscriber implements SyncSubscriber {
  readonly #proxy: LoopbackProxy;

  constructor(proxy: LoopbackProxy) {
    this.#proxy = proxy;
  }

  synced({ state, nodeContext }: SyncReport): void {
    void this.#proxy.sync(wantedNodePorts(state, nodeContext));
  }
}
