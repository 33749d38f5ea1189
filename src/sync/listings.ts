import type { Clock } from "../base/clock.ts";
import { AppError } from "../base/errors.ts";
import type { Family } from "../base/family.ts";
import { firstOf } from "../base/signals.ts";
import type { Nft, SetListingOptions, StreamOptions, TableLister } from "../kernel/nft.ts";
import type { TableName } from "../nft/ast/any-table.ts";
import type { Quiet, QuietTime } from "./quiet-time.ts";

/** How long a listing may take while syncs go on, because they have waited for as long as they may, milliseconds. */
const MOST_UNQUIET = 8000;

/** What lists for {@link QuietListings}. */
type QuietNft = TableLister & Pick<Nft, "listChains" | "listTableOf">;

/** Lists our tables piece by piece, each while no sync changes them. A listing is ended when it holds up syncs for too long. */
export class QuietListings implements TableLister {
  readonly #nft: QuietNft;
  readonly #time: QuietTime;
  readonly #clock: Clock;
  readonly #isUrgent: boolean;

  /** @param isUrgent for a repair: syncs wait, however long they have waited before */
  constructor(nft: QuietNft, time: QuietTime, clock: Clock, isUrgent = false) {
    this.#nft = nft;
    this.#time = time;
    this.#clock = clock;
    this.#isUrgent = isUrgent;
  }

  /** As `Nft.listTable`. @throws AppError NFT_TIMEOUT, too, when it was ended for syncs that waited */
  listTable(family: Family, signal?: AbortSignal): Promise<string | undefined> {
    return this.#quietly(signal, (quiet) => this.#nft.listTable(family, quiet.signal));
  }

  /** As `Nft.listSet`. @throws AppError NFT_TIMEOUT, too, when it was ended for syncs that waited */
  listSet(
    family: Family,
    kind: "set" | "map",
    name: string,
    { signal, ...options }: SetListingOptions = {},
  ): Promise<string | undefined> {
    return this.#quietly(signal, (quiet) =>
      this.#nft.listSet(family, kind, name, { ...options, signal: quiet.signal }),
    );
  }

  /** As `Nft.streamSet`. Syncs go on as soon as nft has read the set. @throws AppError NFT_TIMEOUT when it was ended for them */
  async *streamSet(
    family: Family,
    kind: "set" | "map",
    name: string,
    { signal, onRead }: StreamOptions = {},
  ): AsyncGenerator<string, void, undefined> {
    const quiet = await this.#begin(signal);
    const onQuietRead = () => {
      quiet.end();
      onRead?.();
    };
    try {
      yield* this.#nft.streamSet(family, kind, name, { signal: quiet.signal, onRead: onQuietRead });
    } finally {
      quiet.end();
    }
  }

  /** As `Nft.listChains`: short, however many sets there are. */
  listChains(): Promise<string> {
    return this.#nft.listChains();
  }

  /**
   * As `Nft.listTableOf`: any change of ours has nft begin anew with the tables of others, too, and 5,000 sets take it longer
   * than there is between two changes.
   * @throws AppError NFT_TIMEOUT, too, when it was ended for syncs that waited
   */
  async listTableOf(table: TableName, as: "json" | "text", signal?: AbortSignal): Promise<string | undefined> {
    return await within(await this.#begin(signal), (quiet) => this.#nft.listTableOf(table, as, quiet.signal));
  }

  #begin(signal: AbortSignal | undefined): Promise<Quiet> {
    return this.#isUrgent ? this.#time.beginAtOnce(signal) : this.#time.begin(signal);
  }

  async #quietly<T>(signal: AbortSignal | undefined, list: (quiet: Pick<Quiet, "signal">) => Promise<T>): Promise<T> {
    const quiet = await (this.#isUrgent ? this.#begin(signal) : this.#time.beginUnlessSpent(signal));
    if (quiet === undefined) {
      // Most of these are short enough to end between two changes.
      const late = new AbortController();
      const timer = this.#clock.after(MOST_UNQUIET, () => late.abort(tooSlow()));
      return await list({ signal: firstOf(late.signal, signal) }).finally(() => timer.cancel());
    }
    return await within(quiet, list);
  }
}

async function within<T>(quiet: Quiet, list: (quiet: Quiet) => Promise<T>): Promise<T> {
  try {
    return await list(quiet);
  } finally {
    quiet.end();
  }
}

function tooSlow(): AppError {
  return new AppError("NFT_TIMEOUT", `nft did not list our tables within ${MOST_UNQUIET / 1000} s beside changes`);
}
