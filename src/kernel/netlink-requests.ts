import type { Clock, Timer } from "../base/clock.ts";
import { AppError } from "../base/errors.ts";
import { openSocket, socketFailure } from "./netlink-socket.ts";
import type { OpenProgram } from "./running-programs.ts";

/**
 * Maximum wait for the next part of an answer, milliseconds. socat starts in 10 ms, and the kernel fills a
 * part within 1 ms.
 */
const TIMEOUT = 5000;

/** Reads the answer to a request. */
export interface AnswerReader<Message> {
  /** Returns the messages that these bytes complete. Bytes may be cut anywhere. */
  readonly read: (chunk: Uint8Array) => readonly Message[];
  /** Whether this message ends the answer: the end of a dump, an error, or the only message. */
  readonly isLast: (message: Message) => boolean;
}

/**
 * Sends requests about the nftables and the conntrack table of this network namespace to the kernel. Opens
 * the socket for the first request and keeps it until {@link NetlinkRequests.close}, or for a time without
 * requests: 20 small dumps take 12 to 22 ms with one socket, and 160 to 220 ms with a socat for each.
 */
export class NetlinkRequests {
  readonly #clock: Clock;
  readonly #socat: string | undefined;
  readonly #timeoutMs: number;
  readonly #idleMs: number | undefined;
  #idle: Timer | undefined;
  /** Requests that wait or are being answered. */
  #pending = 0;
  #program: OpenProgram | undefined;
  /** Resolves at the end of the latest request. */
  #last: Promise<void> = Promise.resolve();

  /**
   * @param socat path or name of the program
   * @param timeoutMs maximum wait for the next part of an answer, milliseconds
   * @param idleMs time without requests after which the socket is closed, milliseconds; forever if absent
   */
  constructor(clock: Clock, socat?: string, timeoutMs = TIMEOUT, idleMs?: number) {
    this.#clock = clock;
    this.#socat = socat;
    this.#timeoutMs = timeoutMs;
    this.#idleMs = idleMs;
  }

  /**
   * Sends a request and yields the messages of its answer as they arrive. The kernel continues only as they
   * are read, so that at most about 500 KB wait. Later requests wait until this one is answered, or its
   * answer is no longer read.
   * @param request at most 64 KB; or several requests, of which the last has the last answer
   * @throws AppError HOST if socat cannot be started, ends or hangs; as `read` does
   */
  async *ask<Message>(
    request: Uint8Array,
    reader: AnswerReader<Message>,
  ): AsyncGenerator<readonly Message[], void, undefined> {
    this.#idle?.cancel();
    this.#pending++;
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
      this.#pending--;
      if (this.#pending === 0 && this.#idleMs !== undefined)
        this.#idle = this.#clock.after(this.#idleMs, () => this.close());
    }
  }

  /** Closes the socket. The next request opens it again. */
  close(): void {
    this.#program?.kill();
    this.#program = undefined;
  }

  async *#exchange<Message>(
    request: Uint8Array,
    { read, isLast }: AnswerReader<Message>,
  ): AsyncGenerator<readonly Message[], void, undefined> {
    const program = this.#opened();
    let isComplete = false;
    try {
      program.write(request);
      while (!isComplete) {
        const messages = read(await this.#nextPart(program));
        isComplete = messages.some(isLast);
        if (messages.length > 0) yield messages;
      }
    } finally {
      // Otherwise the rest of the answer would be read as the next one.
      if (!isComplete) this.#drop(program);
    }
  }

  #opened(): OpenProgram {
    if (this.#program !== undefined) return this.#program;
    const program = openSocket(this.#socat);
    this.#program = program;
    void program.ended.then(() => this.#drop(program));
    return program;
  }

  async #nextPart(program: OpenProgram): Promise<Uint8Array> {
    const clock = this.#clock;
    let late: AppError | undefined;
    let timer: Timer = clock.after(this.#timeoutMs, () => {
      // If this process was busy, its timers fire before messages that have already arrived are read.
      timer = clock.after(0, () => {
        late = new AppError(
          "HOST",
          `cannot read the kernel's tables: no answer within ${this.#timeoutMs / 1000} s`,
        );
        program.kill();
      });
    });
    try {
      const next = await program.output.next();
      if (next.done === true) throw late ?? socketFailure(this.#socat, await program.ended);
      return next.value;
    } finally {
      timer.cancel();
    }
  }

  #drop(program: OpenProgram): void {
    program.kill();
    if (this.#program === program) this.#program = undefined;
  }
}
