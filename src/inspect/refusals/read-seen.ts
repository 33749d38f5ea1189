import { AppError } from "../../base/errors.ts";
import { FAMILIES } from "../../base/family.ts";
import type { Nft } from "../../kernel/nft.ts";
import { readRefusals, type SeenRefusal, withSinglePackets } from "../../kernel/refusals.ts";
import { systemClock } from "../../kernel/system-clock.ts";
import { REFUSAL_TIMEOUT } from "../../ruleset/refusal-rules.ts";
import { REFUSED } from "../../ruleset/sets.ts";
import { askDaemon } from "../daemon-socket/daemon-client.ts";
import type { RunningDaemon } from "../daemon-socket/running-daemon.ts";

/** The refusals that the kernel remembers, at one moment. */
export interface SeenRefusals {
  readonly entries: readonly SeenRefusal[];
  /** Whether a daemon watches them, which knows the first times of those that began since it started. */
  readonly isWatched: boolean;
}

/**
 * Reads the refusals by way of the daemon; from the kernel where there is none, or where it does not watch them.
 * @throws AppError as nft does; HOST where nothing is recorded, and for a daemon that gives no usable answer
 */
export async function readSeenRefusals(nft: Nft, daemon: RunningDaemon | undefined): Promise<SeenRefusals> {
  const answer = daemon === undefined ? undefined : await askDaemon(daemon.socket, "refusals");
  if (answer?.refusals !== undefined) return { entries: answer.refusals, isWatched: true };
  const entries = await readRefusals(nft, FAMILIES, { set: REFUSED, timeout: REFUSAL_TIMEOUT });
  if (entries === undefined) {
    throw new AppError("HOST", "refusals are not recorded on this host", {
      hint: "nft-proxy records them in its tables, unless --refusal-log-size is 0",
    });
  }
  return { entries: withSinglePackets(entries, systemClock.now()), isWatched: false };
}
