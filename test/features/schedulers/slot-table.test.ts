import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  fillSlots,
  type SlotOwner,
  slotCount,
  slotTable,
} from "../../../src/features/schedulers/slot-table.ts";

const owner = (i: number, salt: number, weight = 1, port = 80): SlotOwner => {
  return { address: `10.${salt & 255}.${i >> 8}.${i & 255}`, port, weight };
};
const owners = (count: number, salt: number) => Array.from({ length: count }, (_, i) => owner(i, salt));

const anyWeighted = fc
  .tuple(fc.array(fc.integer({ min: 1, max: 100 }), { minLength: 1, maxLength: 60 }), fc.nat(255))
  .map(([weights, salt]) => weights.map((weight, i) => owner(i, salt, weight)));

/** The addresses of the slots, one by one. */
function slots(of: readonly SlotOwner[], count = slotCount(of)): string[] {
  return Array.from(fillSlots(of, count), (position) => (of[position] as SlotOwner).address);
}

function counts(table: readonly string[]): Map<string, number> {
  const result = new Map<string, number>();
  for (const address of table) result.set(address, (result.get(address) ?? 0) + 1);
  return result;
}

/** The part of the other endpoints' slots that change hands when one endpoint goes. */
function movedBeyondOwn(all: readonly SlotOwner[], gone: SlotOwner, size: number): number {
  const before = slots(all, size);
  const rest = all.filter((each) => each !== gone);
  const after = slots(rest, size);
  const others = before.filter((address) => address !== gone.address).length;
  return (
    before.filter((address, slot) => address !== gone.address && address !== after[slot]).length / others
  );
}

describe("a slot table", () => {
  test.each([
    [1, 251],
    [25, 251],
    [26, 1021],
    [102, 1021],
    [409, 4093],
    [410, 16381],
    [1639, 16381],
    [5460, 16381],
    [5461, 32749],
    [10916, 32749],
    [10917, 65521],
  ])("of %i endpoints of one weight has %i slots", (count, size) => {
    expect(slotCount(owners(count, 0))).toBe(size);
  });

  test("has more slots where weights differ, up to 4093", () => {
    expect(slotCount([owner(0, 0, 1), owner(1, 0, 24)])).toBe(251);
    expect(slotCount([owner(0, 0, 1), owner(1, 0, 100)])).toBe(1021);
    expect(slotCount([owner(0, 0, 50), owner(1, 0, 50)])).toBe(251);
    expect(slotCount(Array.from({ length: 20 }, (_, i) => owner(i, 0, i === 0 ? 1 : 100)))).toBe(4093);
  });

  test("gives each endpoint its share by weight within 2 % of all slots, and at least one slot", () => {
    fc.assert(
      fc.property(anyWeighted, (all) => {
        const sum = all.reduce((total, { weight }) => total + weight, 0);
        const size = slotCount(all);
        const taken = counts(slots(all));
        for (const { address, weight } of all) {
          const count = taken.get(address) ?? 0;
          expect(count).toBeGreaterThan(0);
          // One slot is the least that an endpoint can be off.
          expect(Math.abs(count - (size * weight) / sum)).toBeLessThanOrEqual(Math.max(1, 0.02 * size));
        }
      }),
      { numRuns: 60 },
    );
  });

  test("with 3 slots for each of thousands of endpoints gives every one a slot, heavy and light alike", () => {
    for (const light of [0, 0.31, 0.5, 0.9]) {
      const all = Array.from({ length: 5460 }, (_, i) => owner(i, 0, i < light * 5460 ? 1 : 100));
      expect(slotCount(all)).toBe(16381);
      expect(counts(slots(all)).size).toBe(5460);
    }
  });

  test("with 3 slots for each of thousands of endpoints moves few others' slots when one endpoint goes", () => {
    const all = owners(5000, 0);
    expect(movedBeyondOwn(all, all[397] as SlotOwner, slotCount(all))).toBeLessThan(0.005);
  });

  test.each([2, 3, 5, 8, 10, 18, 25, 26, 60, 102, 103, 250])(
    "of %i endpoints moves under 2 % of the other endpoints' slots, on average, when one endpoint goes",
    (count) => {
      const moved: number[] = [];
      for (let salt = 0; salt < 12; salt++) {
        const all = owners(count, salt);
        const size = slotCount(all);
        const step = Math.ceil(count / 12);
        for (let i = 0; i < count; i += step) moved.push(movedBeyondOwn(all, all[i] as SlotOwner, size));
      }
      expect(moved.reduce((sum, part) => sum + part, 0) / moved.length).toBeLessThan(0.02);
      expect(Math.max(...moved)).toBeLessThan(0.06);
    },
  );

  test("is the same for endpoints in any order", () => {
    const shuffled = anyWeighted.chain((all) =>
      fc.tuple(fc.constant(all), fc.shuffledSubarray(all, { minLength: all.length })),
    );
    fc.assert(
      fc.property(shuffled, ([all, other]) => {
        expect(slots(other)).toEqual(slots(all));
      }),
      { numRuns: 40 },
    );
  });

  test("is the same for two ports of the same endpoints", () => {
    const at = (port: number) => owners(7, 3).map((each) => ({ ...each, port }));
    expect(slots(at(9090))).toEqual(slots(at(8080)));
  });

  test("gives each of two ports of one address slots of its own", () => {
    const both = [owner(0, 0, 1, 8080), owner(0, 0, 1, 9090), owner(1, 0)];
    const table = [...fillSlots(both, 251)];
    for (const position of [0, 1, 2])
      expect(table.filter((each) => each === position).length).toBeGreaterThan(70);
    // The lower port has the hash of the address alone, as in a list with no other port of it.
    expect(table).toEqual(
      [...fillSlots([both[1], both[0], both[2]] as SlotOwner[], 251)].map((i) => [1, 0, 2][i]),
    );
  });
});

describe("equal slot tables", () => {
  const weighted = owners(20, 7).map((one, i) => ({ ...one, weight: 1 + (i % 3) }));

  test("are one, whatever the port of the endpoints", () => {
    const table = slotTable(weighted);
    expect(slotTable(weighted.map((one) => ({ ...one, port: 8080 })))).toBe(table);
    expect(slotTable(weighted.map((one, i) => ({ ...one, port: 1000 + i })))).toBe(table);
    expect(slotTable(owners(20, 7))).not.toBe(table);
    expect(slotTable(owners(20, 8))).not.toBe(slotTable(owners(20, 7)));
  });

  test("are those that are made for the endpoints, also where several ports have one address", () => {
    const anyPort = fc.constantFrom(80, 443, 8080, 9090, 10_000);
    const anyOwners = fc.uniqueArray(
      fc.tuple(fc.constantFrom("10.0.0.1", "10.0.0.2", "10.0.0.3"), anyPort, fc.integer({ min: 1, max: 3 })),
      { selector: ([address, port]) => `${address} ${port}`, minLength: 2 },
    );
    fc.assert(
      fc.property(anyOwners, (some) => {
        const of = some.map(([address, port, weight]) => ({ address, port, weight }));
        expect(slotTable(of)).toEqual(fillSlots(of, slotCount(of)));
      }),
    );
  });
});
