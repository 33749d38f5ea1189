import { jhash, scaleHash, scatter } from "../../base/jhash.ts";
import type { Endpoint } from "../../model/endpoint.ts";

/** Sizes of slot tables: primes below powers of two. */
export const SLOT_TABLE_SIZES = [251, 1021, 4093, 16381, 32749, 65521] as const;

/** Minimum number of slots for each endpoint, or for the lightest, in tables up to {@link MOST_FOR_TEN}. */
const SLOTS_EACH = 10;

/**
 * Maximum size of a table that is made larger to give each endpoint 10 slots. The kernel takes 6 us of CPU
 * for each new slot, and changes of other Services wait meanwhile.
 */
const MOST_FOR_TEN = 16381;

/** Minimum number of slots for each endpoint in larger tables. */
const LEAST_SLOTS_EACH = 3;

/** Maximum size of a table that is enlarged only because of weights. */
const MOST_FOR_WEIGHTS = 4093;

/** Tolerance of an endpoint's number of slots: a fraction of all slots, and a fraction of its own. */
const BAND_OF_ALL = 0.02;
const BAND_OF_OWN = 0.3;

/** The properties of an endpoint that decide its slots. */
export type SlotOwner = Pick<Endpoint, "address" | "port"> & {
  /** 1..100 */
  readonly weight: number;
};

/**
 * The number of slots for some endpoints: enough for 10 each, or for 3 each from 1,639 endpoints on; and up
 * to 4093 for 10 of the lightest by its weight.
 * @param owners at least one
 */
export function slotCount(owners: readonly SlotOwner[]): number {
  const lightest = owners.reduce((least, { weight }) => Math.min(least, weight), Number.POSITIVE_INFINITY);
  return slotCountOf({ count: owners.length, sum: weightOf(owners), lightest });
}

function weightOf(owners: readonly SlotOwner[]): number {
  return owners.reduce((sum, { weight }) => sum + weight, 0);
}

/** The totals of some endpoints: how many, the sum of their weights, and the lightest. */
type Totals = Readonly<Record<"count" | "sum" | "lightest", number>>;

/** As {@link slotCount}, from totals; more endpoints never get fewer slots. */
export function slotCountOf({ count, sum, lightest }: Totals): number {
  const byWeight = Math.min((SLOTS_EACH * sum) / lightest, MOST_FOR_WEIGHTS);
  const least = Math.max(Math.min(SLOTS_EACH * count, MOST_FOR_TEN), LEAST_SLOTS_EACH * count, byWeight);
  return SLOT_TABLE_SIZES.find((size) => size >= least) ?? 65521;
}

/** The tables in use, by their inputs: two ports of a Service have the same, and two Services may. */
const tables = new Map<string, WeakRef<Uint32Array>>();

const unused = new FinalizationRegistry<string>((key) => {
  if (tables.get(key)?.deref() === undefined) tables.delete(key);
});

/**
 * The slot table of some endpoints, made by {@link fillSlots} with {@link slotCount} slots. Equal tables are
 * shared: one of 65,521 slots takes 262 kB, and 0.1 s to make.
 * @param owners at least one, no address and port twice
 */
export function slotTable(owners: readonly SlotOwner[]): Uint32Array {
  const key = tableKey(owners);
  const known = tables.get(key)?.deref();
  if (known !== undefined) return known;
  const table = fillSlots(owners, slotCount(owners));
  tables.set(key, new WeakRef(table));
  unused.register(table, key);
  return table;
}

/** Everything that a table depends on. Ports matter only for several owners at one address. */
function tableKey(owners: readonly SlotOwner[]): string {
  const isAlone = new Set(owners.map(({ address }) => address)).size === owners.length;
  return owners
    .map(({ address, port, weight }) => (isAlone ? `${address} ${weight}` : `${address} ${weight} ${port}`))
    .join();
}

/**
 * Distributes slots among endpoints as Maglev does: an endpoint tries the slots in its own order, derived
 * from its address, and takes free ones. So every node makes the same table from the same endpoints, and two
 * ports of a Service with the same endpoints agree.
 *
 * In Maglev, endpoints take one slot in turn until all are taken. Here they try one slot in turn, heavier
 * ones more often, and an endpoint may miss its exact share by at most 2 % of all slots and about 30 % of its
 * own. With this tolerance, few other slots move when an endpoint comes or goes: with 25 endpoints, 1.5 % on
 * average instead of 8.9 %.
 * Source: Eisenbud et al., "Maglev: A Fast and Reliable Software Network Load Balancer", section 3.4.
 *
 * @param owners at least one, no address and port twice; in any order
 * @param count number of slots; a prime of {@link slotCount}
 * @returns the position in `owners` of each slot's endpoint
 */
export function fillSlots(owners: readonly SlotOwner[], count: number): Uint32Array {
  const table = new Uint32Array(count).fill(FREE);
  let active = candidatesOf(owners, count);
  let free = count;
  /** Number of slots that endpoints below their minimum still need. */
  let reserved = active.reduce((sum, { least }) => sum + least, 0);
  while (free > 0) {
    const heaviest = active.reduce((most, { weight }) => Math.max(most, weight), 0);
    let isOver = false;
    while (!isOver && free > 0) {
      for (const candidate of active) {
        if (!mayTake(candidate, free, reserved)) {
          isOver = true;
          continue;
        }
        const slot = nextTry(candidate, heaviest, count);
        if (slot === undefined || table[slot] !== FREE) continue;
        table[slot] = candidate.owner;
        if (candidate.taken++ < candidate.least) reserved--;
        free--;
      }
    }
    active = active.filter((candidate) => mayTake(candidate, free, reserved));
  }
  return table;
}

/** Marks a free slot. */
const FREE = 0xffff_ffff;

interface Candidate {
  readonly owner: number;
  readonly hash: number;
  readonly weight: number;
  readonly least: number;
  readonly most: number;
  taken: number;
  tries: number;
  /** Accumulated fractions of a try. */
  credit: number;
}

/** An endpoint that has its minimum must leave the slots that others need for theirs. */
function mayTake({ taken, least, most }: Candidate, free: number, reserved: number): boolean {
  return taken < least || (taken < most && free > reserved);
}

const BYTES = new TextEncoder();

function candidatesOf(owners: readonly SlotOwner[], count: number): Candidate[] {
  const sum = weightOf(owners);
  const shareOf = (weight: number) => (count * weight) / sum;
  const leastOf = (share: number, round: (slots: number) => number) =>
    Math.max(1, round(share - bandOf(share, count)));
  const needed = owners.reduce((total, { weight }) => total + leastOf(shareOf(weight), Math.ceil), 0);
  // With 3 slots each and weights, rounding up may ask for more slots than there are.
  const round = needed > count ? Math.floor : Math.ceil;
  const ordered = owners
    .map(({ address, port, weight }, owner) => ({ address, port, weight, owner }))
    .sort((a, b) => (a.address === b.address ? a.port - b.port : a.address < b.address ? -1 : 1));
  const seen = new Map<string, number>();
  return ordered.map(({ address, weight, owner }) => {
    const before = seen.get(address) ?? 0;
    seen.set(address, before + 1);
    const share = shareOf(weight);
    return {
      owner,
      // Ignores the port, so that two ports of a Service agree; an address's other ports use later hashes.
      hash: jhash(BYTES.encode(address), before),
      weight,
      least: leastOf(share, round),
      most: Math.max(Math.ceil(share), Math.floor(share + bandOf(share, count))),
      taken: 0,
      tries: 0,
      credit: 0,
    };
  });
}

function bandOf(share: number, count: number): number {
  return Math.min(BAND_OF_ALL * count, BAND_OF_OWN * share);
}

/** The slot that it tries in this round; undefined if it is too light to try in every round. */
function nextTry(candidate: Candidate, heaviest: number, count: number): number | undefined {
  candidate.credit += candidate.weight / heaviest;
  if (candidate.credit < 1) return undefined;
  candidate.credit--;
  return scaleHash(scatter(candidate.hash ^ Math.imul(candidate.tries++, 0x9e3779b1)), count);
}
