import { firstSorted } from "../../base/first-sorted.ts";
import { joinParts } from "../../nft/elements.ts";
import { parseFrontendKey } from "../../ruleset/keys.ts";
import type { FrontendClients, FrontendElements, FrontendElementsParts } from "../../ruleset/node-context.ts";
import { ALLOWS_ALL } from "../../ruleset/source-ranges.ts";

/** Address of a Service with endpoints to the chain that answers echo requests. */
export const PING_IPS = "ping-ips";
/** Address of a Service, and 0 to 15, to the number of a list of sources that get an answer to pings. */
export const PING_SOURCE_RANGE_LISTS = "ping-source-range-lists";

/** The chain that answers echo requests. */
export const ANSWER_PING = "answer-ping";

/** The chain that answers echo requests of pods and of the node itself. */
export const ANSWER_INSIDE = "answer-ping-inside";

/** The chain that answers only the sources that source ranges allow. */
export const ANSWER_ALLOWED = "answer-ping-allowed";

/** Clients that get an answer at an address: those whose connections a frontend serves. */
type Condition = Pick<FrontendClients, "isInsideOnly" | "ranges">;

/**
 * Maximum number of conditions of one address, for all clients and for those inside. Services that share an
 * address may each have source ranges of their own. Beyond this number, the conditions of the last lists by
 * id are ignored.
 */
export const MOST_CONDITIONS = 8;

/** How many frontends of an address have each condition, by its text. */
type Counts = Map<string, { readonly condition: Condition; count: number }>;

/** The addresses that answer echo requests, however many frontends they have. */
export class PingAnswers implements FrontendElements {
  readonly #parts: FrontendElementsParts;
  readonly #conditions = new Map<string, Counts>();

  constructor(parts: FrontendElementsParts) {
    this.#parts = parts;
  }

  /** NodePorts have no address of their own. */
  replace(from: FrontendClients | undefined, to: FrontendClients | undefined): void {
    const { address } = parseFrontendKey((to ?? from)?.key ?? "");
    if (address === undefined || (from?.isInsideOnly === to?.isInsideOnly && from?.ranges === to?.ranges))
      return;
    const counts: Counts = this.#conditions.get(address) ?? new Map();
    const isChanged = [to !== undefined && add(counts, to, 1), from !== undefined && add(counts, from, -1)];
    if (!isChanged.includes(true)) return;
    if (counts.size > 0) this.#conditions.set(address, counts);
    else this.#conditions.delete(address);
    this.#write(address, counts);
  }

  renumbered(): void {
    for (const [address, counts] of this.#conditions) this.#write(address, counts);
  }

  #write(address: string, counts: Counts): void {
    const conditions = [...counts.values()].map(({ condition }) => condition);
    const target = targetOf(conditions);
    const { table, numberOf } = this.#parts;
    table.setElement(PING_IPS, address, target && `goto ${target}`);
    if (!table.table.sets.has(PING_SOURCE_RANGE_LISTS)) return;
    for (const isInsideOnly of [false, true]) {
      const ofPart = conditions.filter(
        (one) => target === ANSWER_ALLOWED && one.isInsideOnly === isInsideOnly,
      );
      const sorted = firstSorted(ofPart, MOST_CONDITIONS, ({ ranges = "" }) => ranges);
      for (let index = 0; index < MOST_CONDITIONS; index++) {
        const key = joinParts(address, (isInsideOnly ? MOST_CONDITIONS : 0) + index);
        const one = sorted[index];
        const value = one && (one.ranges === undefined ? String(ALLOWS_ALL) : numberOf(one.ranges));
        table.setElement(PING_SOURCE_RANGE_LISTS, key, value);
      }
    }
  }
}

/** Changes a count. @returns whether it was 0 before, or is 0 now and deleted */
function add(counts: Counts, condition: Condition, change: 1 | -1): boolean {
  const key = `${condition.isInsideOnly} ${condition.ranges}`;
  const before = counts.get(key)?.count ?? 0;
  if (before + change === 0) counts.delete(key);
  else counts.set(key, { condition, count: before + change });
  return before === 0 || before + change === 0;
}

/** The chain that answers under some conditions; undefined without any. */
function targetOf(conditions: readonly Condition[]): string | undefined {
  if (conditions.length === 0) return undefined;
  if (conditions.some(({ isInsideOnly, ranges }) => !isInsideOnly && ranges === undefined))
    return ANSWER_PING;
  const areInside = conditions.every(({ isInsideOnly, ranges }) => isInsideOnly && ranges === undefined);
  return areInside ? ANSWER_INSIDE : ANSWER_ALLOWED;
}
