import { mkdir, rm } from "node:fs/promises";
import { connect } from "node:net";
import { dirname } from "node:path";
import { wallTime } from "../base/clock.ts";
import { AppError, messageOf } from "../base/errors.ts";
import { firstOf } from "../base/signals.ts";
import type { Verifier } from "../drift/verifier.ts";
import type { DaemonPart } from "../features/seam/daemon-part.ts";
import { listTableOf } from "../kernel/nft-listings.ts";
import { listOtherTables } from "../kernel/other-tables.ts";
import type { ObjectCache } from "../model/object-cache.ts";
import { rebuildTransaction, toTransaction } from "../nft/transaction.ts";
import { type DaemonAnswers, type DaemonState, daemonPath, daemonTables } from "../socket/daemon-protocol.ts";
import type { SyncLoop } from "../sync/sync-loop.ts";
import type { DaemonInput } from "./daemon-input.ts";
import { jsonAnswer, type Routes } from "./http/http-server.ts";
import type { Proxier } from "./proxier.ts";

/**
 * Returns the routes of the daemon socket, as socket/daemon-protocol.ts defines them. Answers hold 40 MB and
 * more in large clusters, so they are sent in pieces: changes do not wait for a reader.
 */
export function daemonSocketRoutes(
  { nft, objects, recentLog, system: { clock } }: DaemonInput,
  { reconciler, cache, loop }: Proxier,
  verifier: Pick<Verifier, "find">,
  reports: { state(): DaemonState },
  features: readonly DaemonPart[],
): Routes {
  const answers: { readonly [Name in keyof DaemonAnswers]: Answer<Name> } = {
    state: () => reports.state(),
    objects: () => heldObjects(cache),
    desired: () => rebuildTransaction(reconciler.state.ruleset),
    committed: () => rebuildTransaction(reconciler.state.committedRuleset()),
    pending: () => toTransaction(reconciler.state.pending()),
    kernel: async (gone) => {
      const { at, comparison } = await verifier.find(gone);
      const listedAt = wallTime(clock, at);
      // Before the first sync, there is nothing to compare with.
      const isKnown = comparison.kind === "compared" && Object.keys(reconciler.state.ruleset).length > 0;
      const differences = isKnown ? comparison.differences : undefined;
      return await loop.atOneMoment(
        () => heldObjects(cache),
        (objects, committed) => {
          return { listedAt, at: clock.now(), objects, tables: daemonTables(committed), differences };
        },
      );
    },
    others: (gone) => listOtherTables(nft, gone, listBetweenSyncs(loop)),
    unserved: () => objects.unservedServices(),
    log: () => recentLog(),
    refusals: async () => {
      const recorder = features.find(({ refusals }) => refusals !== undefined);
      return { refusals: await recorder?.refusals?.() };
    },
  };
  const names = Object.keys(answers) as (keyof DaemonAnswers)[];
  return new Map(
    names.map((name) => [
      daemonPath(name),
      async (_, gone) => ({ ...jsonAnswer(""), pieces: jsonPieces(await answers[name](gone)) }),
    ]),
  );
}

type Answer<Name extends keyof DaemonAnswers> = (
  gone: AbortSignal | undefined,
) => DaemonAnswers[Name] | Promise<DaemonAnswers[Name]>;

/** Maximum time that changes wait for the listing of one table of other software. Milliseconds. */
const MOST_WAITING = 2000;

/**
 * Lists tables of other software, each while no sync runs: nft restarts a listing whenever rules change. With
 * 20 changes a second, the listing of 5,000 sets, which takes 0.45 s, would never end.
 */
function listBetweenSyncs(loop: Pick<SyncLoop, "betweenSyncs">): typeof listTableOf {
  return (nft, table, as, signal) =>
    loop.betweenSyncs(() => listTableOf(nft, table, as, firstOf(AbortSignal.timeout(MOST_WAITING), signal)));
}

function heldObjects(cache: ObjectCache): DaemonAnswers["objects"] {
  return {
    services: cache.serviceNames().flatMap((name) => cache.service(name) ?? []),
    endpointSlices: cache.allSlices(),
    nodes: cache.isNodeKnown ? [cache.node] : [],
    serviceCIDRs: cache.serviceCIDRs(),
  };
}

/**
 * Prepares the path of a Unix socket: creates its directory, for its owner only, and removes a socket that an
 * ended process left.
 * @throws AppError HOST if a process listens on it, or the file system does not permit it
 */
export async function prepareSocket(path: string): Promise<void> {
  if (await isServed(path)) {
    throw new AppError("HOST", `another process listens on ${path}`, {
      hint: "another nft-proxy runs on this host: two of them in one network namespace undo each other's rules; stop one of them, or, if they run in different network namespaces, set another --daemon-socket for one",
    });
  }
  try {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await rm(path, { force: true });
  } catch (error) {
    throw new AppError("HOST", `cannot prepare ${path}: ${messageOf(error)}`, { cause: error });
  }
}

function isServed(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}

/** Maximum number of array items that become text at once. */
const BATCH = 100;

/**
 * Yields the text of `JSON.stringify(value)` in pieces, so that a large value neither blocks the event loop
 * nor is in memory twice. Iterables other than arrays become arrays, too.
 * @param value plain data, which must not change until the last piece is taken
 */
export function* jsonPieces(value: unknown): Generator<string> {
  if (!isLarge(value)) yield JSON.stringify(value);
  else if (isIterable(value)) yield* itemPieces(value);
  else yield* fieldPieces(value);
}

/** Whether a value is or contains an array of more than {@link BATCH} items, or another iterable. */
function isLarge(value: unknown): value is object {
  if (typeof value !== "object" || value === null) return false;
  if (Array.isArray(value)) return value.length > BATCH || value.some(isLarge);
  return isIterable(value) || Object.values(value).some(isLarge);
}

function isIterable(value: object): value is Iterable<unknown> {
  return Symbol.iterator in value;
}

function* fieldPieces(value: object): Generator<string> {
  let before = "{";
  for (const [name, field] of Object.entries(value)) {
    if (field === undefined) continue;
    yield `${before}${JSON.stringify(name)}:`;
    yield* jsonPieces(field);
    before = ",";
  }
  yield "}";
}

function* itemPieces(items: Iterable<unknown>): Generator<string> {
  let before = "";
  let batch: unknown[] = [];
  const batchText = (): string => {
    const text = before + JSON.stringify(batch).slice(1, -1);
    [before, batch] = [",", []];
    return text;
  };
  yield "[";
  for (const item of items) {
    const isOwnPiece = isLarge(item);
    if (batch.length === BATCH || (isOwnPiece && batch.length > 0)) yield batchText();
    if (!isOwnPiece) {
      batch.push(item);
      continue;
    }
    yield before;
    yield* jsonPieces(item);
    before = ",";
  }
  if (batch.length > 0) yield batchText();
  yield "]";
}
