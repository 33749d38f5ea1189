import type { Clock, Timer } from "../base/clock.ts";
import { AppError } from "../base/errors.ts";
import { openSocket, socketFailure } from "./netlink-socket.ts";
import type { ProgramEnd } from "./process.ts";
import type { OpenProgram } from "./stream-lines.ts";

/** From one ping to the next, milliseconds. */
const PING_INTERVAL = 10_000;

/** Within this time something has to arrive after a ping, milliseconds. socat starts in 10 ms and answers within 1 ms. */
const PONG_TIMEOUT = 5_000;

/**
 * What the kernel keeps of notifications that are not read yet, bytes; it allows twice as much and counts all that they take
 * in memory. That holds one commit of 300,000 elements, and 8 MB not even 100,000 (Linux 6.18, socat stopped meanwhile).
 * It takes memory only for what waits there.
 */
const BUFFER = 32 * 1024 * 1024;

/** What {@link startNetlinkEvents} needs. */
export interface NetlinkEventsParts {
  /** Path or name of the program. */
  readonly socat?: string;
  readonly clock: Clock;
  /** A request that the kernel answers, and that changes nothing. */
  readonly ping: Uint8Array;
  /** The size of the kernel's buffer, bytes. */
  readonly bufferBytes?: number;
  /** Called with the kernel's messages as they come, cut anywhere: notifications and the answers to `ping`. */
  readonly onBytes: (chunk: Uint8Array) => void;
  /** Called once, when nothing more will come and it was not stopped. @param reason {@link AppError}, or what `onBytes` threw */
  readonly onEnd: (reason: unknown) => void;
}

/** The kernel's notifications about nftables, until they end. */
export interface NetlinkEvents {
  /** Of socat; undefined when it could not be started. The kernel's answers to pings are addressed to this port id. */
  readonly pid: number | undefined;
  /**
   * Resolves when no commit from now on is missed: the kernel has answered, which it does only once the socket is bound.
   * Rejects with what `onEnd` is told, and when it is stopped before.
   */
  readonly ready: Promise<void>;
  /** Sends a ping: the answer comes behind all that was committed before. */
  ask(): void;
  /** Ends it; nothing is called after this. */
  stop(): void;
}

/**
 * Begins to listen to what changes in nftables in this network namespace. Ends when the kernel had to drop a notification,
 * and when socat ends, is killed or hangs. Beginning again is the caller's part.
 */
export function startNetlinkEvents(parts: NetlinkEventsParts): NetlinkEvents {
  return new EventSocket(parts);
}

class EventSocket implements NetlinkEvents {
  readonly ready: Promise<void>;
  readonly #parts: NetlinkEventsParts;
  #settle: { readonly resolve: () => void; readonly reject: (reason: unknown) => void } | undefined;
  #program: OpenProgram;
  #timer: Timer | undefined;
  /** Whether something has arrived since the last ping. */
  #isAlive = false;
  #isReady = false;
  #isEnded = false;

  constructor(parts: NetlinkEventsParts) {
    this.#parts = parts;
    this.ready = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject };
    });
    // Whoever does not wait for it is told by onEnd.
    this.ready.catch(() => {});
    this.#program = this.#open(true);
    void this.#run();
  }

  get pid(): number | undefined {
    return this.#program.pid;
  }

  ask(): void {
    this.#program.write(this.#parts.ping);
  }

  stop(): void {
    this.#close(new AppError("HOST", "listening to nftables was stopped"));
  }

  #open(isForced: boolean): OpenProgram {
    const { socat, bufferBytes = BUFFER } = this.#parts;
    return openSocket(socat, { notifications: true, buffer: { bytes: bufferBytes, isForced } });
  }

  async #run(): Promise<void> {
    try {
      let end = await this.#follow();
      // Root of a user namespace may listen, but not exceed the limit of the host.
      if (!this.#isReady && !this.#isEnded && end.stderr.includes("setsockopt(")) {
        this.#program = this.#open(false);
        end = await this.#follow();
      }
      this.#end(socketFailure(this.#parts.socat, end));
    } catch (error) {
      this.#end(error);
    }
  }

  /** Hands over what arrives until the program ends. */
  async #follow(): Promise<ProgramEnd> {
    const program = this.#program;
    this.#ping();
    for await (const chunk of program.output) {
      if (this.#isEnded) break;
      this.#isAlive = true;
      this.#isReady = true;
      this.#parts.onBytes(chunk);
      this.#settle?.resolve();
    }
    return await program.ended;
  }

  #ping(): void {
    const { clock, ping } = this.#parts;
    this.#timer?.cancel();
    this.#isAlive = false;
    this.#program.write(ping);
    this.#timer = clock.after(PONG_TIMEOUT, () => {
      // When this process was busy, its timers come before what has arrived meanwhile.
      this.#timer = clock.after(0, () => this.#expectPong());
    });
  }

  #expectPong(): void {
    const { clock, socat = "socat" } = this.#parts;
    if (this.#isAlive) this.#timer = clock.after(PING_INTERVAL - PONG_TIMEOUT, () => this.#ping());
    else this.#end(new AppError("HOST", `${socat}, by which nftables is read, did not answer within 5 s`));
  }

  #end(reason: unknown): void {
    if (this.#isEnded) return;
    this.#close(reason);
    this.#parts.onEnd(reason);
  }

  #close(reason: unknown): void {
    this.#isEnded = true;
    this.#timer?.cancel();
    this.#program.kill();
    this.#settle?.reject(reason);
  }
}
