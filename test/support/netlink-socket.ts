import { endianness } from "node:os";
import { execa } from "execa";
import { expect } from "vitest";
import { type NetlinkRequests, REQUESTS } from "../../src/kernel/netlink-requests.ts";
import {
  decodedElement,
  decodedIntervals,
  type EncodedElement,
  hasEndElements,
} from "../../src/netlink/element-bytes.ts";
import { MessageReader, type NetlinkMessage } from "../../src/netlink/message.ts";
import type { RawElement } from "../../src/netlink/raw-element.ts";
import type { Ruleset } from "../../src/nft/ast/ruleset.ts";
import { encodedSet } from "./encoded-elements.ts";

/** The notifications of nftables (NFNLGRP_NFTABLES is group 7). */
const CHANGES = 0x40;

/** A netlink socket of this network namespace, in a socat process. */
export class NetlinkSocket {
  readonly #socat;
  readonly #reader = new MessageReader(endianness());
  readonly #received: NetlinkMessage[] = [];
  readonly #ended: Promise<never>;
  #wake: () => void = () => undefined;

  /** @param hears whether the socket gets the notifications of each change */
  constructor({ hears = false }: { readonly hears?: boolean } = {}) {
    const groups = Buffer.alloc(4);
    if (endianness() === "LE") groups.writeUInt32LE(hears ? CHANGES : 0);
    else groups.writeUInt32BE(hears ? CHANGES : 0);
    // The fields of struct sockaddr_nl after the family: padding, port id, groups. The peer is the kernel
    // with port id 0.
    const own = `x000000000000${groups.toString("hex")}`;
    const address = `SOCKET-DATAGRAM:16:3:12:x00000000000000000000,bind=${own},rcvbuf=8388608`;
    this.#socat = execa("socat", ["-b", "1048576", "STDIO", address], {
      encoding: "buffer",
      buffer: { stdout: false },
      reject: false,
    });
    this.#ended = this.#socat.then(({ stderr }) => {
      throw new Error(`socat ended: ${Buffer.from(stderr).toString()}`);
    });
    this.#ended.catch(() => undefined);
    this.#socat.stdout.on("data", (chunk: Buffer) => {
      this.#received.push(...this.#reader.read(chunk));
      this.#wake();
    });
  }

  /** Sends a request. */
  send(request: Uint8Array): void {
    this.#socat.stdin.write(request);
  }

  /**
   * Returns the messages up to and including the first for which `isLast` is true.
   * @throws Error if socat has ended
   */
  async until(isLast: (message: NetlinkMessage) => boolean): Promise<readonly NetlinkMessage[]> {
    for (;;) {
      const at = this.#received.findIndex(isLast);
      if (at >= 0) return this.#received.splice(0, at + 1);
      const woken = new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      await Promise.race([woken, this.#ended]);
    }
  }

  /** Sends a request and returns its answer up to `done` or `error`. */
  async ask(request: Uint8Array): Promise<readonly NetlinkMessage[]> {
    this.send(request);
    return await this.until(({ kind }) => kind === "done" || kind === "error");
  }

  /** Closes the socket. */
  async close(): Promise<void> {
    this.#socat.kill();
    await this.#socat;
  }
}

/** Returns the number of the last commit to nftables. */
export async function generationOf(requests: NetlinkRequests): Promise<number> {
  let generation = 0;
  for await (const messages of requests.ask(REQUESTS.generation()))
    for (const message of messages) if (message.kind === "generation") generation = message.generation;
  return generation;
}

/** Returns the elements of messages, in order. */
export function elementsOf(messages: readonly NetlinkMessage[]): RawElement[] {
  return messages.flatMap((message) => (message.kind === "elements" ? message.elements : []));
}

/** Returns elements without timeouts and counters, sorted. */
export function identities(elements: Iterable<EncodedElement>): string[] {
  return [...elements]
    .map(({ key, keyEnd, isEnd, value }) => JSON.stringify([key, keyEnd, isEnd, value]))
    .sort();
}

/**
 * Expects that the kernel has the encoded bytes of a ruleset's elements, and that decoding these bytes gives
 * the ruleset's elements.
 */
export async function expectElements(socket: NetlinkSocket, ruleset: Ruleset): Promise<void> {
  const host = endianness();
  for (const { family, name: table, sets } of Object.values(ruleset)) {
    for (const set of sets.values()) {
      if (set.spec.dynamic) continue;
      const answer = await socket.ask(REQUESTS.dump({ family, table, set: set.spec.name }));
      const raws = elementsOf(answer);
      expect(answer.at(-1), set.spec.name).toEqual({ kind: "done" });
      expect(identities(raws), set.spec.name).toEqual(identities(encodedSet(set, host)));
      const decoded = hasEndElements(set.spec)
        ? decodedIntervals(set.spec, raws)?.map((key) => ({ key, value: "" }))
        : raws.map((raw) => decodedElement(set.spec, raw, host));
      expect(new Map(decoded?.map((element) => [element?.key, element?.value])), set.spec.name).toEqual(
        set.elements,
      );
    }
  }
}
