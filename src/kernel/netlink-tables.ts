import { endianness } from "node:os";
import type { Clock } from "../base/clock.ts";
import { AppError } from "../base/errors.ts";
import type { Family } from "../base/family.ts";
import { decodedElement, decodedIntervals, encodedParts, hasEndElements } from "../netlink/element-bytes.ts";
import type { RawElement } from "../netlink/raw-element.ts";
import { type SetSpec, TABLE_NAME } from "../nft/ast/ruleset.ts";
import type { ListedElement } from "../nft/elements.ts";
import { netlinkRequests, REQUESTS } from "./netlink-requests.ts";
import type { Nft } from "./nft.ts";
import { listTable } from "./nft-listings.ts";
import type { TableReader } from "./table-reader.ts";

/** Errno for a set that does not exist. */
const ENOENT = 2;

/**
 * Opens a reader of our tables. It reads the elements of sets by netlink through socat.
 * @param nft lists declarations and rules
 * @param socat path or name of the program
 * @throws AppError HOST if socat cannot be started, or not read nftables
 */
export async function openTables(nft: Nft, clock: Clock, socat = "socat") {
  const requests = netlinkRequests(clock, socat);
  try {
    for await (const _ of requests.ask(REQUESTS.generation()));
  } catch (error) {
    requests.close();
    throw error;
  }
  const tables: TableReader = {
    listTable: (family, signal) => listTable(nft, family, signal),
    /** Changes do not restart a dump: 100,000 elements take 0.3 s during 50 commits a second (6.18). */
    async *elements(family, spec, signal) {
      const request = REQUESTS.dump({ family, table: TABLE_NAME, set: spec.name });
      const marks: RawElement[] = [];
      for await (const messages of requests.ask(request)) {
        signal?.throwIfAborted();
        for (const message of messages) {
          if (message.kind === "malformed") throw notUnderstood(family, spec, message.reason);
          if (message.kind === "error" && message.errno === ENOENT) return;
          if (message.kind === "error")
            throw notUnderstood(family, spec, `the kernel answered with error ${message.errno}`);
          if (message.kind !== "elements") continue;
          if (hasEndElements(spec)) marks.push(...message.elements);
          else yield message.elements.map((raw) => listedElement(family, spec, raw));
        }
      }
      if (marks.length === 0) return;
      const intervals = decodedIntervals(spec, marks);
      if (intervals === undefined) throw notUnderstood(family, spec, "its intervals have no ends");
      yield intervals.map((key) => ({ key, value: "" }));
    },
    async element(family, spec, key) {
      const bytes = encodedParts(spec.key, key, endianness());
      const request = REQUESTS.element({ family, table: TABLE_NAME, set: spec.name }, bytes);
      let found: ListedElement | undefined;
      for await (const messages of requests.ask(request)) {
        for (const message of messages) {
          const [raw] = message.kind === "elements" ? message.elements : [];
          if (raw !== undefined) found = listedElement(family, spec, raw);
        }
      }
      return found;
    },
  };
  return { tables, close: requests.close };
}

function listedElement(family: Family, spec: SetSpec, raw: RawElement): ListedElement {
  const element = decodedElement(spec, raw, endianness());
  if (element === undefined) throw notUnderstood(family, spec, "it has an element of an unknown form");
  const { packets, timeoutMs, expiresMs } = raw;
  if (packets === undefined && expiresMs === undefined) return element;
  return { ...element, packets, timeoutMs, expiresMs };
}

function notUnderstood(family: Family, { name }: SetSpec, reason: string): AppError {
  return new AppError("NFT_OUTPUT", `cannot read the set ${family} ${TABLE_NAME} ${name}: ${reason}`);
}
