import type { Family } from "../../base/family.ts";
import type { TableReader } from "../../kernel/table-reader.ts";
import type { Protocol } from "../../model/ids.ts";
import type { Settings } from "../../ruleset/node-context.ts";

/** Packets of one client to one destination that our rules refused or dropped. */
export interface RefusalEntry {
  readonly family: Family;
  readonly client: string;
  readonly address: string;
  readonly protocol: Protocol;
  /** 1..65535 */
  readonly port: number;
  /** Since the entry was created by the first packet after an hour without any. */
  readonly packets: number;
  /** Seconds since the last packet. */
  readonly silentFor: number;
}

/** A refusal with the time of its first packet, if a daemon has watched it from the start. */
export interface SeenRefusal extends RefusalEntry {
  /** Milliseconds since 1970, at most half a minute off. */
  readonly firstAt?: number;
}

/** Returns the time of the last packet of a refusal. @param now time of reading, milliseconds since 1970 */
export function lastPacketAt({ silentFor }: Pick<RefusalEntry, "silentFor">, now: number): number {
  return now - silentFor * 1000;
}

/** How the command `refusals` reads a record of refused connections. */
export interface RefusalReader {
  /**
   * Reads the refusals that the kernel has recorded.
   * @param now the time, milliseconds since 1970
   * @returns undefined if none are recorded
   * @throws AppError as {@link TableReader} does
   */
  readonly read: (
    tables: TableReader,
    families: readonly Family[],
    now: number,
  ) => Promise<readonly SeenRefusal[] | undefined>;
  /** Returns the refusals since an earlier reading, with the packets since then. */
  readonly since: (before: readonly SeenRefusal[], now: readonly SeenRefusal[]) => SeenRefusal[];
  /** Maximum number of refusals of a family. */
  readonly sizeOf: (settings: Settings) => number;
}
