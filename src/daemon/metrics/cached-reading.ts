/** Something that is expensive to read. */
export interface CachedReadingOptions<T> {
  /** A rejection leaves the last reading in place. */
  readonly read: () => Promise<T>;
  /** Wall clock, milliseconds. */
  readonly now: () => number;
  /** How long a reading is good for, milliseconds: whoever asks more often gets the last one. */
  readonly maxAge: number;
  /** Told of each reading that failed. */
  readonly onError: (error: unknown) => void;
}

/**
 * Reads when asked, at most once per `maxAge`, and once for those who ask at the same time.
 * @param first stands for a reading until one has succeeded
 * @returns gives the last reading; never rejects
 */
export function cachedReading<T>(first: T, { read, now, maxAge, onError }: CachedReadingOptions<T>): () => Promise<T> {
  let last = first;
  let readAt = Number.NEGATIVE_INFINITY;
  let underWay: Promise<T> | undefined;
  const refresh = async () => {
    try {
      last = await read();
    } catch (error) {
      onError(error);
    }
    // A failed reading counts as one, so that scrapes do not repeat it while nft is in trouble.
    readAt = now();
    underWay = undefined;
    return last;
  };
  return () => {
    if (underWay !== undefined) return underWay;
    if (now() - readAt < maxAge) return Promise.resolve(last);
    underWay = refresh();
    return underWay;
  };
}
