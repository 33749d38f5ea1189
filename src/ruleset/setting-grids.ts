/**
 * The values to which settings that tenants choose are rounded, so that the number of chains has a limit:
 * each value has a chain.
 */

/** Steps are chosen so that these timeouts, which people write, stay exact. Seconds. */
const EXACT_SECONDS = [
  60, 120, 180, 240, 300, 600, 900, 1200, 1800, 3600, 5400, 7200, 10_800, 21_600, 43_200, 86_400,
] as const;

/** The longest step, as a part of the timeout. */
const SECONDS_STEP = 0.1;

/** Timeouts of session affinity: each second up to a minute, then steps of at most 10 %. Ascending. */
export const AFFINITY_SECONDS: readonly number[] = [
  ...Array.from({ length: 59 }, (_, index) => index + 1),
  ...EXACT_SECONDS.flatMap((first, index) => stepsFrom(first, EXACT_SECONDS[index + 1])),
];

/** The timeouts from one exact timeout to the next, without the latter; only the first if none is next. */
function stepsFrom(first: number, next: number | undefined): readonly number[] {
  if (next === undefined) return [first];
  const count = Math.ceil(Math.log(next / first) / Math.log(1 + SECONDS_STEP));
  return Array.from({ length: count }, (_, step) => Math.floor(first * (next / first) ** (step / count)));
}

/**
 * The timeout of session affinity that the rules have: the smaller of both, rounded up. So it may exceed
 * `most` by 10 %.
 * @param seconds 1 to 86,400
 * @param most the longest permitted one
 */
export function roundedAffinitySeconds(seconds: number, most: number): number {
  const wanted = Math.min(seconds, most);
  return AFFINITY_SECONDS.find((one) => one >= wanted) ?? wanted;
}

/** Up to this number of endpoints, each number has a chain of its own. */
const MOST_EXACT = 64;

/** The step of larger numbers: at most 1.2 % of connections find no endpoint in two draws. */
const COUNT_STEP = 1.125;

/** More endpoints than a node can hold. */
const MOST_COUNT = 1_000_000;

/** Numbers among which chains draw one of a list's endpoints. Ascending. */
export const DRAW_COUNTS: readonly number[] = drawCounts();

function drawCounts(): readonly number[] {
  const counts = Array.from({ length: MOST_EXACT }, (_, index) => index + 1);
  for (let count = MOST_EXACT; count < MOST_COUNT; ) {
    count = Math.min(MOST_COUNT, Math.floor(count * COUNT_STEP));
    counts.push(count);
  }
  return counts;
}

/**
 * The numbers among which a chain draws, in turn, until the list has an endpoint with the number drawn. Only
 * the last draw is certain to find one.
 * @param count one of {@link DRAW_COUNTS}, for lists that are longer than the previous count
 */
export function drawsOf(count: number): readonly number[] {
  if (count <= MOST_EXACT) return [count];
  return [count, count, DRAW_COUNTS[DRAW_COUNTS.indexOf(count) - 1] ?? count];
}

/** The number among which to draw for a list of some endpoints: the same, or the next greater one. */
export function drawCount(endpoints: number): number {
  return endpoints <= MOST_EXACT ? endpoints : (DRAW_COUNTS.find((one) => one >= endpoints) ?? MOST_COUNT);
}
