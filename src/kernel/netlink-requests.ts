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

/** A socket for requests to the kernel. */
export type NetlinkRequests = ReturnType<typeof netlinkRequests>;

type Answer = AsyncGenerator<readonly NetlinkMessage[], void, undefined>;

/**
 * Sends requests about the nftables and the conntrack table of this network namespace to the kernel. Opens
 * the socket for the first request and keeps it until `close`, or for a time without requests: 20 small dumps
 * take 12 to 22 ms with one socket, and 160 to 220 ms with a socat for each.
 * @param socat path or name of the program
 * @param idleMs time without requests after which the socket is closed, milliseconds; forever if absent
 */
export function netlinkRequests(clock: Clock, socat?: string, idleMs?: number) {
  let idle: Timer | undefined;
  let opened: OpenProgram | undefined;
  /** Resolves at the end of the latest request. */
  let last: Promise<void> = Promise.resolve();

  const drop = (program: OpenProgram) => {
    program.kill();
    if (opened === program) opened = undefined;
  };

  const open = (): OpenProgram => {
    const program = openSocket(socat);
    void program.ended.then(() => drop(program));
    return program;
  };

  const exchange = async function* (
    request: Uint8Array,
    isLast: (message: NetlinkMessage) => boolean,
  ): Answer {
    opened ??= open();
    const program = opened;
    const reader = new MessageReader(endianness());
    let isComplete = false;
    try {
      program.write(request);
      while (!isComplete) {
        const messages = reader.read(await nextPart(program, clock));
        isComplete = messages.some(isLast);
        if (messages.length > 0) yield messages;
      }
    } finally {
      // Otherwise the rest of the answer would be read as the next one.
      if (!isComplete) drop(program);
    }
  };

  /** Closes the socket. The next request opens it again. */
  const close = () => {
    opened?.kill();
    opened = undefined;
  };

  return {
    close,
    /**
     * Sends a request and yields the messages of its answer as they arrive. The kernel continues only as they
     * are read, so that at most about 500 KB wait. Later requests wait until this one is answered, or its
     * answer is no longer read.
     * @param request one or several requests, at most 64 KB; the answer to the last one comes last
     * @param isLast whether a message ends the answer: by default the end of a dump, an error, or a
     * generation
     * @throws AppError HOST if socat cannot be started, ends or hangs
     */
    async *ask(request: Uint8Array, isLast: (message: NetlinkMessage) => boolean = endsAnswer): Answer {
      idle?.cancel();
      const before = last;
      let release = () => {};
      const answered = new Promise<void>((resolve) => {
        release = resolve;
      });
      last = answered;
      try {
        await before;
        yield* exchange(request, isLast);
      } finally {
        release();
        if (last === answered && idleMs !== undefined) idle = clock.after(idleMs, close);
      }
    },
  };
}

async function nextPart(program: OpenProgram, clock: Clock): Promise<Uint8Array> {
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

function endsAnswer({ kind }: NetlinkMessage): boolean {
  return kind === "done" || kind === "error" || kind === "generation" || kind === "malformed";
}
