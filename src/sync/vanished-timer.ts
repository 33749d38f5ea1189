import type { Clock, Timer } from "../base/clock.ts";
import type { SyncSubscriber } from "./sync-report.ts";
import type { VanishedEndpoints } from "./vanished-endpoints.ts";

/** Requests a sync when vanished endpoints are due to come into the rules, or to leave them. */
export class VanishedTimer implements SyncSubscriber {
  readonly #vanished: Pick<VanishedEndpoints, "nextChangeAt">;
  readonly #clock: Clock;
  readonly #request: () => void;
  #timer: Timer | undefined;

  constructor(vanished: Pick<VanishedEndpoints, "nextChangeAt">, clock: Clock, request: () => void) {
    this.#vanished = vanished;
    this.#clock = clock;
    this.#request = request;
  }

  synced(): void {
    this.#timer?.cancel();
    const at = this.#vanished.nextChangeAt();
    if (at !== undefined) this.#timer = this.#clock.after(Math.max(0, at - this.#clock.now()), this.#request);
  }
}
