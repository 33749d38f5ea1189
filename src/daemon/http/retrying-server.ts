import type { Clock, Timer } from "../../base/clock.ts";
import { evidenceOf, messageOf } from "../../base/errors.ts";
import { FailureLog } from "../../base/failure-log.ts";
import type { Logger } from "../../base/logger.ts";
import { formatListenAddress, type ListenAddress, type OpenServer } from "./http-server.ts";

/** Interval at which a failed bind is retried, as in kube-proxy. Milliseconds. */
const RETRY_INTERVAL = 5000;

/** Options of a {@link retryingServer}. */
export interface RetryingServerOptions {
  /** For the log: "health", "metrics". */
  readonly name: string;
  readonly address: ListenAddress;
  /** Opens the server. Rejects if it cannot bind the address. */
  readonly open: () => Promise<OpenServer>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** `bindAddressHardFail`: if the first attempt fails, start() rejects and nothing is retried. */
  readonly hardFail?: boolean;
  /** Called for the first of several failed binds in a row. */
  readonly onFailure?: (error: unknown) => void;
}

/** A server that tries to bind its address until it succeeds or is closed. */
export type RetryingServer = Readonly<ReturnType<typeof retryingServer>>;

/** Makes a {@link RetryingServer}, which does nothing until `start` is called. */
export function retryingServer(options: RetryingServerOptions) {
  const { name, address, open, clock, logger, hardFail, onFailure } = options;
  const failures = new FailureLog({ clock, logger }, "bind");
  let attempt: Promise<void> | undefined;
  let server: OpenServer | undefined;
  let timer: Timer | undefined;
  let isClosed = false;

  const bind = async (): Promise<void> => {
    try {
      server = await open();
      failures.end({ server: name }, "bound after failures");
      logger.info({ server: name, address: formatListenAddress(address) }, "server listening");
    } catch (error) {
      if (hardFail) throw error;
      const { hint } = evidenceOf(error);
      if (!failures.isFailing) onFailure?.(error);
      failures.add(messageOf(error), { server: name, hint });
      if (!isClosed) timer = clock.after(RETRY_INTERVAL, () => void start());
    }
  };
  /**
   * Tries to listen. Resolves after the first attempt, whether it succeeded or not.
   * @throws AppError HOST if it failed and `hardFail` is set
   */
  const start = (): Promise<void> => {
    attempt = bind();
    return attempt;
  };
  /** Stops listening, or trying to. Never rejects. */
  const close = async (): Promise<void> => {
    isClosed = true;
    timer?.cancel();
    await attempt?.catch(() => undefined);
    await server?.close();
    server = undefined;
  };
  return { start, close };
}

/**
 * Returns a function that runs exactly the given servers: it keeps those that run already, closes the others,
 * and starts the new ones. Its promise resolves when each of these has tried once to listen, and never
 * rejects. It gets functions that make the servers, each by a key of its own.
 */
export function serverSet() {
  const running = new Map<string, RetryingServer>();
  let queue: Promise<void> = Promise.resolve();
  const apply = async (wanted: ReadonlyMap<string, () => RetryingServer>): Promise<void> => {
    const gone = [...running].filter(([key]) => !wanted.has(key));
    for (const [key] of gone) running.delete(key);
    await Promise.all(gone.map(([, server]) => server.close()));
    const added = [...wanted].filter(([key]) => !running.has(key));
    await Promise.all(
      added.map(([key, make]) => {
        const server = make();
        running.set(key, server);
        return server.start();
      }),
    );
  };
  return (wanted: ReadonlyMap<string, () => RetryingServer>): Promise<void> => {
    // In sequence: a port that moves to another Service must be closed before it is opened.
    queue = queue.then(() => apply(wanted));
    return queue;
  };
}
