import { describe, expect, test } from "vitest";
import { endpointsOf } from "../../../../src/model/endpoint.ts";
import { type EndpointList, endpointIds } from "../../../../src/ruleset/endpoint-lists/endpoint-ids.ts";
import { slice } from "../../../support/build.ts";

const LISTS: readonly EndpointList[] = ["cluster", "local", "shortcut"];

const endpoints = (...addresses: string[]) =>
  endpointsOf([slice({ endpoints: addresses })], { family: "ip", spec: { name: "", protocol: "tcp" } }, "");
const ids = (list: EndpointList, ...addresses: string[]) => endpointIds(endpoints(...addresses), list);
const many = Array.from({ length: 1000 }, (_, i) => `10.244.${i >> 8}.${i & 255}`);

/** Two targets whose hashes agree in the bits that an id has; found by trying. */
const COLLIDING = ["10.175.244.117", "10.65.222.175"] as const;

describe("endpointIds", () => {
  test.each(LISTS)("are 32-bit numbers above all indexes, and unique (%s)", (list) => {
    const all = ids(list, ...many);
    expect(new Set(all).size).toBe(1000);
    for (const id of all) {
      expect(Number.isInteger(id) && id >= 0x8000_0000 && id < 0xffff_ffff).toBe(true);
    }
  });

  test("stay the same when other endpoints come and go", () => {
    const [first, , third] = ids("local", "10.0.0.1", "10.0.0.2", "10.0.0.3");
    expect(ids("local", "10.0.0.1", "10.0.0.3")).toEqual([first, third]);
    expect(ids("local", "10.0.0.0", "10.0.0.1", "10.0.0.3", "10.0.0.4").slice(1, 3)).toEqual([first, third]);
  });

  test("of different lists are never the same", () => {
    const all = LISTS.flatMap((list) => ids(list, ...many));
    expect(new Set(all).size).toBe(3000);
    const bits = LISTS.map((list) => new Set(ids(list, ...many).map((id) => id >>> 28)));
    expect(bits).toEqual([new Set([0b1100]), new Set([0b1110]), new Set([0b1101])]);
  });

  test("that collide are told apart, by the order of targets", () => {
    const [one] = ids("cluster", COLLIDING[0]);
    const [other] = ids("cluster", COLLIDING[1]);
    expect(one).toBe(other);
    const [first = 0, second] = ids("cluster", ...COLLIDING);
    expect([first, second]).toEqual([one, first + 1]);
    expect(ids("cluster", ...COLLIDING.toReversed())).toEqual([first, second]);
  });
});
