import { setTimeout as sleep } from "node:timers/promises";
import type { Clock } from "../../base/clock.ts";
import { cached } from "../../kernel/logged-reading.ts";
import { systemClock } from "../../kernel/system-clock.ts";
import type { ExplainInput } from "../explain/explain-input.ts";
import { loadExplainInput } from "../load/load-explain-input.ts";
import type { LoadRequest } from "../load/load-request.ts";
import { explainRefusals, REFUSALS, type RefusalFilter, type SeenRefusals } from "./refused-destinations.ts";

/** Minimum time between two readings of the kernel's set, or of the objects. Milliseconds. */
const WATCH_MS = 2000;

/** Minimum pause after a reading of the set, in durations of that reading. */
const WATCH_PAUSE_RATIO = 10;

/** Refusals with their causes, at one moment. */
export type ExplainedRefusals = Readonly<ReturnType<typeof explainSeen>>;

/** Explains refusals by some objects. `now` is in milliseconds since 1970. */
export function explainSeen(
  { entries, isWatched }: SeenRefusals,
  input: ExplainInput,
  filter: RefusalFilter,
) {
  const now = systemClock.now();
  return { destinations: explainRefusals(entries, input, filter, now), now, isWatched };
}

/**
 * Returns a function for the present objects: those of the daemon, or those of the start if there is no
 * daemon or it has ended. Calls in quick succession get the same ones, as loading 10,000 Services takes a
 * second.
 * @param first those of now
 */
export function latestInput(
  first: ExplainInput,
  request: LoadRequest,
  clock: Pick<Clock, "monotonic"> = systemClock,
  load: () => Promise<{ readonly input: ExplainInput }> = () => loadExplainInput(request, "desired"),
): () => Promise<ExplainInput> {
  if (request.daemon === undefined || request.paths.length > 0) return async () => first;
  let latest = first;
  const loadLatest = async () => {
    latest = await load().then(
      ({ input }) => input,
      () => latest,
    );
    return latest;
  };
  return cached(loadLatest, WATCH_MS, clock, first);
}

/**
 * Yields the first refusals, then the new ones of each reading, if there are any, until `stop` resolves.
 * @param stop called once, before the first refusals are yielded
 * @param wait waits for some milliseconds
 * @throws AppError as `read` does
 */
export async function* watchRefusals(
  first: SeenRefusals,
  read: () => Promise<SeenRefusals>,
  explained: (seen: SeenRefusals) => Promise<ExplainedRefusals>,
  stop: () => Promise<unknown>,
  wait: (milliseconds: number) => Promise<unknown> = sleep,
): AsyncGenerator<ExplainedRefusals, void, undefined> {
  let isStopped = false;
  const stopped = stop().then(() => {
    isStopped = true;
    return undefined;
  });
  yield await explained(first);
  let pause = WATCH_MS;
  for (let before = first; !isStopped; ) {
    await Promise.race([wait(pause), stopped]);
    const startedAt = systemClock.monotonic();
    const reading: { seen?: SeenRefusals } = {};
    const readOnce = async () => {
      reading.seen = await read();
    };
    // The value of a race is kept until all its promises are settled.
    await Promise.race([readOnce(), stopped]);
    const { seen } = reading;
    if (seen === undefined) return;
    // Reading a full set costs seconds of CPU, in this process, the daemon and the kernel.
    pause = Math.max(WATCH_MS, WATCH_PAUSE_RATIO * (systemClock.monotonic() - startedAt));
    const entries = REFUSALS?.since(before.entries, seen.entries) ?? [];
    before = seen;
    if (entries.length === 0) continue;
    const fresh = await explained({ ...seen, entries });
    if (fresh.destinations.length > 0) yield fresh;
  }
}
