import { describe, expect, test } from "vitest";
import type { ServicePortKey } from "../../../src/model/ids.ts";
import {
  ListIds,
  listId,
  listNumber,
  MOST_PLAIN_PORTS,
  MOST_STICKY_PORTS,
  parseId,
  STICKY_MASK,
  TO_CLUSTER_LIST,
  TO_OWN_LIST,
  WAYS,
} from "../../../src/ruleset/list-ids.ts";

const key = (name: string | number) => `ip default/${name}/tcp` as ServicePortKey;

/** Ids for so many service ports, which are there from then on. */
function assigned(count: number, isSticky = false): ListIds {
  const ids = new ListIds();
  for (let i = 0; i < count; i++) ids.assign(key(i), isSticky);
  ids.markCommitted();
  return ids;
}

describe.each([
  ["without affinity", false],
  ["with affinity", true],
])("the id of a service port %s", (_, isSticky) => {
  test("gives the ids of its lists, of external ways to them, and back", () => {
    const id = assigned(17, isSticky).of(key(16)) ?? 0;
    expect(listNumber(id)).toBe(17);
    for (const way of WAYS) expect(parseId(listId(id, way))).toEqual({ servicePort: id, isSticky, way });
  });

  test("is found behind a mask from each external way", () => {
    const id = assigned(3, isSticky).of(key(2)) ?? 0;
    const masked = (way: (typeof WAYS)[number], mask: number) => (listId(id, way) & mask) >>> 0;
    expect(masked("external-cluster", TO_CLUSTER_LIST)).toBe(listId(id, "cluster"));
    expect(masked("external-local", TO_CLUSTER_LIST)).toBe(listId(id, "cluster"));
    expect(masked("external-cluster", TO_OWN_LIST)).toBe(listId(id, "cluster"));
    expect(masked("external-local", TO_OWN_LIST)).toBe(listId(id, "local"));
    if (isSticky) expect(((id + 16_383) & STICKY_MASK) >>> 0).toBe(id);
  });
});

test.each([0, 1, 0x7fff_ffff, 0x8000_0000, 0x8000_0003, 0x8100_0000, 0xbfff_fffc, 0xc000_0000, 0xc000_3fff])(
  "%s is no id",
  (id) => {
    expect(parseId(id)).toBeUndefined();
  },
);

test("an endpoint's id has no way", () => {
  expect(parseId(0xc000_4004)).toEqual({ servicePort: 0xc000_4000, isSticky: true, way: undefined });
});

describe("ListIds", () => {
  test("are dense, and used again only after the kernel has lost them", () => {
    const ids = assigned(3);
    const freed = ids.of(key(1));
    ids.release(key(1));
    expect(listNumber(ids.assign(key("a"), false) ?? 0)).toBe(4);
    ids.markCommitted();
    expect(ids.assign(key("b"), false)).toBe(freed);
    expect(listNumber(ids.assign(key("c"), false) ?? 0)).toBe(5);
  });

  test("are had again by a service port that comes back before the kernel has lost them", () => {
    const ids = assigned(2);
    const [id, neighbour] = [ids.of(key(0)), ids.of(key(1))];
    ids.release(key(0));
    expect(ids.assign(key(2), false)).not.toBe(id);
    expect(ids.assign(key(0), false)).toBe(id);
    ids.release(key(1));
    ids.markCommitted();
    expect(ids.assign(key(3), false)).toBe(neighbour);
    expect(ids.assign(key(1), false)).not.toBe(neighbour);
  });

  test("change with affinity, and only then", () => {
    const ids = assigned(1);
    const plain = ids.of(key(0));
    expect(ids.assign(key(0), false)).toBe(plain);
    const sticky = ids.assign(key(0), true);
    expect(parseId(sticky ?? 0)).toMatchObject({ isSticky: true, way: "cluster" });
    ids.markCommitted();
    expect(ids.assign(key("other"), false)).toBe(plain);
  });

  test("with affinity end, and then one that is free at last is used again at once", () => {
    const ids = assigned(MOST_STICKY_PORTS, true);
    expect(ids.hasFor(key("late"), true)).toBe(false);
    expect(ids.hasFor(key(0), true)).toBe(true);
    expect(ids.hasFor(key("late"), false)).toBe(true);
    expect(ids.assign(key("late"), true)).toBeUndefined();
    const freed = ids.of(key(7));
    ids.release(key(7));
    expect(ids.assign(key("late"), true)).toBe(freed);
  });

  test("adopt what the kernel has, and give others none of its ids before it has lost them", () => {
    const ids = assigned(3);
    const [one = 0, two = 0, three = 0] = [0, 1, 2].map((number) => ids.of(key(number)));
    // The kernel has the second's id for the first, and a fourth that is nobody's any more.
    const foreign = three + 4;
    const changed = ids.adopt(new Map([[key(0), two]]), new Set([two, foreign]));
    expect(changed.sort()).toEqual([key(0), key(1)]);
    expect([ids.of(key(0)), ids.of(key(1)), ids.of(key(2))]).toEqual([two, one, three]);
    expect(listNumber(ids.assign(key("new"), false) ?? 0)).toBe(5);
    ids.markCommitted();
    expect(ids.assign(key("newer"), false)).toBe(foreign);
  });

  test("are the lowest that are free, beside an adopted one that is far from them", () => {
    const ids = assigned(2);
    const high = listId(0x8000_0000 + 4 * MOST_PLAIN_PORTS, "cluster");
    ids.adopt(new Map([[key(0), high]]), new Set([high]));
    expect([ids.of(key(0)), ids.of(key(1))]).toEqual([high, listId(0x8000_0008, "cluster")]);
    expect([key("a"), key("b")].map((name) => listNumber(ids.assign(name, false) ?? 0))).toEqual([1, 3]);
    ids.release(key(0));
    expect(ids.assign(key(0), false)).toBe(high);
    ids.release(key(0));
    ids.markCommitted();
    expect(listNumber(ids.assign(key(0), false) ?? 0)).toBe(4);
  });

  test("return to their service ports while the kernel counts connections of clients by them", () => {
    const ids = assigned(2);
    const counted = ids.of(key(0)) ?? 0;
    for (const name of [key(0), key(1)]) ids.noteCountedClients(name);
    const lapse = () => {
      ids.release(key(0));
      ids.markCommitted();
      ids.markCommitted();
    };
    lapse();
    expect([ids.assign(key("a"), false), ids.assign(key(0), false)]).toEqual([counted + 8, counted]);
    ids.noteCountedClients(key(0));
    lapse();
    ids.freeHeld([counted]);
    expect([ids.assign(key("b"), false), ids.assign(key(0), false)]).toEqual([counted, counted + 12]);
  });

  test("with affinity stay apart until the kernel remembers no clients of theirs, as long as there are others", () => {
    const ids = assigned(2, true);
    const freed = ids.of(key(0)) ?? 0;
    ids.release(key(0));
    ids.markCommitted();
    expect([...ids.held]).toEqual([freed]);
    expect(listNumber(ids.assign(key("a"), true) ?? 0)).toBe(3);
    ids.freeHeld([freed, 7]);
    expect([ids.held.size, ids.assign(key("b"), true)]).toEqual([0, freed]);
    const all = assigned(MOST_STICKY_PORTS, true);
    all.release(key(0));
    all.markCommitted();
    expect([all.hasFor(key("late"), true), all.assign(key("late"), true)]).toEqual([true, freed]);
  });

  test("of a copy change apart from the original", () => {
    const ids = assigned(2);
    const copy = ids.copy();
    copy.release(key(0));
    copy.assign(key("x"), false);
    expect(copy.of(key(1))).toBe(ids.of(key(1)));
    expect([ids.of(key(0)), copy.of(key(0))]).toEqual([expect.any(Number), undefined]);
    expect(ids.of(key("x"))).toBeUndefined();
  });
});
