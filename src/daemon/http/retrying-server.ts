import type { Clock, Timer } from "../../base/clock.ts";
import { AppError, messageOf } from "../../base/errors.ts";
import { FailureLog } from "../../base/failure-log.ts";
import type { Logger } from "../../base/logger.ts";
import { formatListenAddress, type ListenAddress, type OpenServer } from "./http-server.ts";

/** Interval at which a failed bind is retried, as in kube-proxy. Milliseconds. */
const RETRY_INTERVAL = 5000;

/** Options of a {@link RetryingServer}. */
export interface RetryingServerOptions {
  /** For the log: "health", "metrics". */
  readonly name: string;
  readonly address: ListenAddress;
  /** Opens the server. Rejects if it cannot bind the address. */
  readonly open: (address: ListenAddress) => Promise<OpenServer>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** `bindAddressHardFail`: if the first attempt fails, start() rejects and nothing is retried. */
  readonly hardFail?: boolean;
  /** Called for the first of several failed binds in a row. */
  readonly onFailure?: (error: unknown) => void;
}

/** A server that tries to bind its address until it succeeds or is closed. */
export class RetryingServer {
  readonly #options: RetryingServerOptions;
  #attempt: Promise<void> | undefined;
  #server: OpenServer | undefined;
  #timer: Timer | undefined;
  #closed = false;
  readonly #failures: FailureLog;

  constructor(options: RetryingServerOptions) {
    this.#options = options;
    this.#failures = new FailureLog(options, "bind");
  }

  /**
   * Tries to listen. Resolves after the first attempt, whether it succeeded or not.
   * @throws AppError HOST if it failed and `hardFail` is set
   */
  start(): Promise<void> {
    this.#attempt = this.#try();
    return this.#attempt;
  }

  /** Stops listening, or trying to. Never rejects. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#timer?.cancel();
    await this.#attempt?.catch(() => undefined);
    await this.#server?.close();
    this.#server = undefined;
  }

  async #try(): Promise<void> {
    const { name, address, open, clock, logger, hardFail, onFailure } = this.#options;
    try {
      this.#server = await open(address);
      this.#failures.end({ server: name }, "bound after failures");
      logger.info({ server: name, address: formatListenAddress(address) }, "server listening");
    } catch (error) {
      if (hardFail) throw error;
      const hint = error instanceof AppError ? error.hint : undefined;
      if (!this.#failures.isFailing) onFailure?.(error);
      this.#failures.add(messageOf(error), { server: name, hint });
      if (!this.#closed) this.#timer = clock.after(RETRY_INTERVAL, () => void this.start());
    }
  }
}

/** A set of servers that can change at run time. */
export class ServerSet {
  readonly #running = new Map<string, RetryingServer>();
  #queue: Promise<void> = Promise.resolve();

  /**
   * Runs exactly these servers; those that already run are kept. Resolves when the others are closed and each
   * new one has been tried once. Never rejects.
   * @param wanted functions that make the servers, by a key that identifies each
   */
  sync(wanted: ReadonlyMap<string, () => RetryingServer>): Promise<void> {
    // In sequence: a port that moves to another Service must be closed before it is opened.
    this.#queue = this.#queue.then(() => this.#apply(wanted));
    return this.#queue;
  }

  async #apply(wanted: ReadonlyMap<string, () => RetryingServer>): Promise<void> {
    const gone = [...this.#running].filter(([key]) => !wanted.has(key));
    for (const [key] of gone) this.#running.delete(key);
    await Promise.all(gone.map(([, server]) => server.close()));
    const added = [...wanted].filter(([key]) => !this.#running.has(key));
    await Promise.all(
      added.map(([key, make]) => {
        const server = make();
        this.#running.set(key, server);
        return server.start();
      }),
    );
  }
}
