import { endianness } from "node:os";
import type { Clock, Timer } from "../base/clock.ts";
import { AppError } from "../base/errors.ts";
import { MessageReader, type NetlinkMessage } from "../netlink/message.ts";
import { RequestWriter } from "../netlink/requests.ts";
import { openSocket, socketFailure } from "./netlink-socket.ts";
import type { OpenProgram } from "./running-programs.ts";

/**
 * Maximum wait for the next part of an answer, milliseconds. socat starts in 10 ms, and the kernel fills a
 * part within 1 ms.
 */
const TIMEOUT = 5000;

/** The requests to the kernel of this host. */
export const REQUESTS = new RequestWriter(endianness());

/**
 * Sends requests about the nftables and the conntrack table of this network namespace to the kernel. Opens
 * the socket for the first request and keeps it until {@link NetlinkRequests.close}, or for a time without
 * requests: 20 small dumps take 12 to 22 ms with one socket, and 160 to 220 ms with a socat for each.
 */
export class NetlinkRequests {
  readonly #clock: Clock;
  readonly #socat: string | undefined;
  readonly #idleMs: number | undefined;
  #idle: Timer | undefined;
  #program: OpenProgram | undefined;
  /** Resolves at the end of the latest request. */
  #last: Promise<void> = Promise.resolve();

  /**
   * @param socat path or name of the program
   * @param idleMs time without requests after which the socket is closed, milliseconds; forever if absent
   */
  constructor(clock: Clock, socat?: string, idleMs?: number) {
    this.#clock = clock;
    this.#socat = socat;
    this.#idleMs = idleMs;
  }

  /**
   * Sends a request and yields the messages of its answer as they arrive. The kernel continues only as they
   * are read, so that at most about 500 KB wait. Later requests wait until this one is answered, or its
   * answer is no longer read.
   * @param request at most 64 KB; or several requests, of which the last has the last answer
   * @param isLast whether a message ends the answer: by default the end of a dump, an error, or a generation
   * @throws AppError HOST if socat cannot be started, ends or hangs
   */
  async *ask(
    request: Uint8Array,
    isLast: (message: NetlinkMessage) => boolean = endsAnswer,
  ): AsyncGenerator<readonly NetlinkMessage[], void, undefined> {
    this.#idle?.cancel();
    const before = this.#last;
    let release = () => {};
    const answered = new Promise<void>((resolve) => {
      release = resolve;
    });
    this.#last = answered;
    try {
      await before;
      yield* this.#exchange(request, isLast);
    } finally {
      release();
      if (this.#last === answered && this.#idleMs !== undefined)
        this.#idle = this.#clock.after(this.#idleMs, () => this.close());
    }
  }

  /** Closes the socket. The next request opens it again. */
  close(): void {
    this.#program?.kill();
    this.#program = undefined;
  }

  async *#exchange(
    request: Uint8Array,
    isLast: (message: NetlinkMessage) => boolean,
  ): AsyncGenerator<readonly NetlinkMessage[], void, undefined> {
    const program = this.#opened();
    const reader = new MessageReader(endianness());
    let isComplete = false;
    try {
      program.write(request);
      while (!isComplete) {
        const messages = reader.read(await this.#nextPart(program));
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
    let timer: Timer = clock.after(TIMEOUT, () => {
      // If this process was busy, its timers fire before messages that have already arrived are read.
      timer = clock.after(0, () => {
        const seconds = TIMEOUT / 1000;
        late = new AppError("HOST", `cannot read the kernel's tables: no answer within ${seconds} s`);
        program.kill();
      });
    });
    try {
      const next = await program.output.next();
      if (next.done === true) throw late ?? socketFailure(program, await program.ended);
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

function endsAnswer({ kind }: NetlinkMessage): boolean {
  return kind === "done" || kind === "error" || kind === "generation" || kind === "malformed";
}
