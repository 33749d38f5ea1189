import type { Clock, Timer } from "../base/clock.ts";
import { AppError } from "../base/errors.ts";
import { openSocket, socketFailure } from "./netlink-socket.ts";
import type { OpenProgram } from "./stream-lines.ts";

/** For an answer with all that its reader does meanwhile, milliseconds. A set of 100,000 elements takes 250 ms. */
const TIMEOUT = 60_000;

/** How the answer to a request is read. */
export interface AnswerReader<Message> {
  /** The messages of the next bytes; bytes may be cut anywhere. */
  readonly read: (chunk: Uint8Array) => readonly Message[];
  /** Whether the answer ends with this message: the end of a dump, an error, or the only message. */
  readonly isLast: (message: Message) => boolean;
}

/** What {@link NetlinkRequests} is made of. */
export interface NetlinkRequestsParts {
  /** Path or name of the program. */
  readonly socat?: string;
  readonly clock: Clock;
  /** Milliseconds; see {@link NetlinkRequests.ask}. */
  readonly timeoutMs?: number;
}

/**
 * Asks the kernel about nftables in this network namespace. Its socket is opened for the first request and stays open until
 * {@link NetlinkRequests.close}: 20 small dumps take 12 to 22 ms through one, and 160 to 220 ms with a socat for each.
 */
export class NetlinkRequests {
  readonly #parts: NetlinkRequestsParts;
  #program: OpenProgram | undefined;
  /** The end of the last request so far. */
  #last: Promise<void> = Promise.resolve();

  constructor(parts: NetlinkRequestsParts) {
    this.#parts = parts;
  }

  /**
   * Sends a request, and yields the messages of its answer as they arrive. The kernel goes on as they are taken, so that at
   * most 1 MB waits. Other requests wait until this one is answered, or its answer is no longer taken.
   * @param request at most 64 KB, or several requests of which the last one's answer is the last
   * @throws AppError HOST when socat cannot be started or ends, or the answer is not taken to its end in time; as `read` does
   */
  async *ask<Message>(
    request: Uint8Array,
    reader: AnswerReader<Message>,
  ): AsyncGenerator<readonly Message[], void, undefined> {
    const before = this.#last;
    let release = () => {};
    this.#last = new Promise((resolve) => {
      release = resolve;
    });
    try {
      await before;
      yield* this.#exchange(request, reader);
    } finally {
      release();
    }
  }

  /** Closes the socket; another request opens one again. */
  close(): void {
    this.#program?.kill();
    this.#program = undefined;
  }

  async *#exchange<Message>(
    request: Uint8Array,
    { read, isLast }: AnswerReader<Message>,
  ): AsyncGenerator<readonly Message[], void, undefined> {
    const program = this.#opened();
    const limit = this.#limit(program);
    let isComplete = false;
    try {
      program.write(request);
      while (!isComplete) {
        const next = await program.output.next();
        if (next.done === true) throw limit.reached ?? socketFailure(this.#parts.socat, await program.ended);
        const messages = read(next.value);
        isComplete = messages.some(isLast);
        if (messages.length > 0) yield messages;
      }
    } finally {
      limit.timer.cancel();
      // What is left of the answer would be read as the next one's.
      if (!isComplete) this.#drop(program);
    }
  }

  #opened(): OpenProgram {
    if (this.#program?.hasEnded !== false) this.#program = openSocket(this.#parts.socat, { notifications: false });
    return this.#program;
  }

  /** Kills the program when time is up. */
  #limit(program: OpenProgram): { readonly timer: Timer; readonly reached: AppError | undefined } {
    const { clock, timeoutMs = TIMEOUT } = this.#parts;
    let reached: AppError | undefined;
    const timer = clock.after(timeoutMs, () => {
      reached = new AppError("HOST", `nftables could not be read within ${timeoutMs / 1000} s`);
      program.kill();
    });
    return {
      timer,
      get reached() {
        return reached;
      },
    };
  }

  #drop(program: OpenProgram): void {
    program.kill();
    if (this.#program === program) this.#program = undefined;
  }
}
