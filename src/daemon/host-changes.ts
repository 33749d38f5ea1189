import type { Timer } from "../base/clock.ts";
import { messageOf } from "../base/errors.ts";
import { FailureLog } from "../base/failure-log.ts";
import type { DaemonInput } from "./daemon-input.ts";
import type { Proxier } from "./proxier.ts";

/** Wait for further changes of the host, which often come together. Milliseconds. */
const SETTLING = 200;

/** Reads the host's addresses when they changed, and requests a sync if rules depend on the change. */
export class HostChanges {
  readonly #input: DaemonInput;
  readonly #proxier: Proxier;
  readonly #onAddresses: (addresses: readonly string[]) => void;
  readonly #failures: FailureLog;
  #timer: Timer | undefined;

  /** @param onAddresses called with all addresses of the host after they were read */
  constructor(input: DaemonInput, proxier: Proxier, onAddresses: (addresses: readonly string[]) => void) {
    this.#input = input;
    this.#proxier = proxier;
    this.#onAddresses = onAddresses;
    this.#failures = new FailureLog(
      { logger: input.logger, clock: input.system.clock },
      "cannot read the addresses of this host, retrying",
      "the addresses of this host can be read again",
    );
  }

  /** Whether the host could not be read the last time. */
  get isFailing(): boolean {
    return this.#failures.isFailing;
  }

  /** Reads the host soon. */
  changed(): void {
    this.#timer ??= this.#input.system.clock.after(SETTLING, () => {
      this.#timer = undefined;
      void this.read();
    });
  }

  /** Reads the host now. Never rejects. */
  async read(): Promise<void> {
    const { nodeContext, loop } = this.#proxier;
    try {
      await nodeContext.refresh();
      this.#onAddresses(nodeContext.host.local);
      this.#failures.end();
    } catch (error) {
      this.#failures.add(messageOf(error));
    }
    loop.requestIfContextChanged();
  }

  stop(): void {
    this.#timer?.cancel();
  }
}
