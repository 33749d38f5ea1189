import { durationText } from "../../base/duration.ts";
import { AppError } from "../../base/errors.ts";
import type { ProxyOptions } from "../../config/options.ts";
import type { StatePart } from "../../features/seam/state-part.ts";
import { stateParts } from "../../features/selection.ts";
import { type HostFiles, hostFamilies, hostFiles } from "../../kernel/host.ts";
import { openTables } from "../../kernel/netlink-tables.ts";
import { type Nft, nftProgram } from "../../kernel/nft.ts";
import { actualTables, readKernel } from "../../kernel/read-kernel.ts";
import { systemClock } from "../../kernel/system-clock.ts";
import type { ObjectCache } from "../../model/object-cache.ts";
import type { Ruleset } from "../../nft/ast/ruleset.ts";
import { askDaemon } from "../../socket/daemon-client.ts";
import { objectsOf, rulesetOf } from "../../socket/daemon-protocol.ts";
import type { Desired } from "./desired.ts";
import type { LoadRequest } from "./load-request.ts";

/** nft-proxy's tables in the kernel. */
export type LiveTables = Readonly<Awaited<ReturnType<typeof liveTables>>>;

/** Age from which a notice reports that a listing is old. Milliseconds. */
const REPORTED_AGE = 10_000;

/**
 * Reads nft-proxy's tables from this host's kernel. A daemon is asked for them if it answers, because it
 * knows the objects of the same moment.
 * @throws AppError as {@link readKernelTables}; HOST for a daemon that gives no usable answer
 */
export async function liveTables({ daemon, options }: Pick<LoadRequest, "daemon" | "options">) {
  const found = daemon && (await askDaemon(daemon.socket, "kernel"));
  const ruleset = found?.differences && actualTables(rulesetOf(found.tables), found.differences);
  if (found === undefined || ruleset === undefined)
    return { ruleset: await readKernelTables(options.nftPath), objects: undefined, notices: [] };
  const age = found.at - found.listedAt;
  const notice = `note: kernel tables as of ${durationText(age / 1000)} ago, plus later changes; the daemon is too busy to list them again`;
  return {
    ruleset,
    /** The daemon's objects of the same moment; absent if no daemon was asked. */
    objects: objectsOf(found.objects),
    /** Lines with the time of the tables, if they are not current. */
    notices: age < REPORTED_AGE ? [] : [notice],
  };
}

/** Limits of nft when a command lists a table or set: milliseconds, and bytes of output. */
const LIMITS = { timeoutMs: 30_000, maxOutputBytes: 500_000_000 };

/** Returns the nft program for listings by commands. Its time limit ends it even if rules keep changing. */
export function listingNft(path: string): Nft {
  return nftProgram({ path, limits: LIMITS });
}

/**
 * Reads nft-proxy's tables of the families that this host supports.
 * @param nftPath the nft program
 * @throws AppError NFT_MISSING; NFT_TIMEOUT where rules change faster than nft lists them; NFT_OUTPUT when
 * the tables were made by other software or cannot be read
 */
async function readKernelTables(nftPath: string): Promise<Ruleset> {
  const { tables, close } = await openTables(listingNft(nftPath), systemClock);
  const state = await readKernel(tables, await hostFamilies(hostFiles)).finally(close);
  if (state.kind === "read") return state.ruleset;
  throw new AppError("NFT_OUTPUT", `cannot read nft-proxy's tables: ${state.reason}`, {
    hint: state.hint ?? "if other software changed them: nft-proxy run or apply rebuilds them",
  });
}

/** The part of a ruleset whose families this host supports. */
export async function tablesOfHost(ruleset: Ruleset, files: HostFiles = hostFiles): Promise<Ruleset> {
  const families = await hostFamilies(files);
  return Object.fromEntries(
    families.flatMap((family) => (ruleset[family] === undefined ? [] : [[family, ruleset[family]]])),
  );
}

/** The parts of the desired state of features, for objects that are complete and final. */
export function finalParts(options: ProxyOptions, cache: ObjectCache): readonly StatePart[] {
  const parts = stateParts(options, { cache, clock: systemClock, isFinal: true });
  for (const part of parts) part.update(cache.serviceNames());
  return parts;
}

/** Puts what features may have added to the kernel into a desired state: only the daemon decides about it. */
export function keepParts(
  { cache, state, options }: Pick<Desired, "cache" | "state" | "options">,
  kernel: Ruleset,
): void {
  for (const part of finalParts(options, cache)) part.keep(kernel, state);
}
