import { describe, expect, test } from "vitest";
import type { SetSpec } from "../../../src/nft/ast/ruleset.ts";
import {
  elementJson,
  joinParts,
  keyJson,
  splitParts,
  targetText,
  verdictJson,
  verdictTarget,
  verdictText,
} from "../../../src/nft/elements.ts";

const plain = { dynamic: false, counter: false };
const endpoints: SetSpec = {
  ...plain,
  name: "endpoints",
  key: ["ipv6_addr", "inet_proto", "inet_service", "classid"],
  value: ["ipv6_addr", "inet_service"],
};
const services: SetSpec = {
  ...plain,
  name: "services",
  key: ["inet_proto", "inet_service"],
  value: "verdict",
};
const addresses: SetSpec = { ...plain, name: "addresses", key: ["ipv4_addr"] };
const ids: SetSpec = { ...plain, name: "ids", key: ["inet_service"], value: ["classid"] };

describe("elements as JSON", () => {
  test.each<[string, SetSpec, { key: string; value: string }, unknown]>([
    ["of a set", addresses, { key: "10.0.0.1", value: "" }, "10.0.0.1"],
    [
      "of a verdict map",
      services,
      { key: "tcp . 30080", value: "goto balance-1" },
      [{ concat: ["tcp", 30080] }, { goto: { target: "balance-1" } }],
    ],
    [
      "of a map to a concatenation",
      endpoints,
      { key: "fd00::1 . udp . 53 . 2147483649", value: "fd00::2 . 5353" },
      [{ concat: ["fd00::1", "udp", 53, 2147483649] }, { concat: ["fd00::2", 5353] }],
    ],
    ["of a map between numbers", ids, { key: "80", value: "7" }, [80, 7]],
  ])("%s have nft's form, added and deleted", (_, spec, element, json) => {
    expect(elementJson(spec, element)).toEqual(json);
    const key = spec.value === undefined ? json : (json as unknown[])[0];
    expect(keyJson(spec, element.key)).toEqual(key);
  });
});

test.each([
  ["goto balance-2", { goto: { target: "balance-2" } }, "balance-2"],
  ["jump external-local", { jump: { target: "external-local" } }, "external-local"],
  ["drop", { drop: null }, undefined],
  ["accept", { accept: null }, undefined],
  ["return", { return: null }, undefined],
])("the verdict %s is converted from text to JSON and back, and has its target", (text, json, target) => {
  expect(verdictJson(text)).toEqual(json);
  expect(verdictText(verdictJson(text))).toBe(text);
  expect(verdictTarget(text)).toBe(target);
});

test("verdictJson throws on text that is no verdict", () => {
  expect(() => verdictJson("flush")).toThrow("not a verdict: flush");
});

test("joinParts joins parts as nft writes them, and splitParts splits them", () => {
  expect(joinParts("fd00::1", "tcp", 80)).toBe("fd00::1 . tcp . 80");
  expect(splitParts("fd00::1 . tcp . 80")).toEqual(["fd00::1", "tcp", "80"]);
});

test.each([
  ["10.244.1.16 . 53", "10.244.1.16:53"],
  ["fd00::1 . 53", "[fd00::1]:53"],
  ["fd00::1", "fd00::1"],
])("the target %s is written %s", (target, text) => {
  expect(targetText(target)).toBe(text);
});

test.each([
  ["10.0.0.1 . tcp . 80-99", { range: [80, 99] }],
  ["10.0.0.1 . tcp . 80-80", { range: [80, 80] }],
])("the key %s of a map of ranges ends in a range", (key, last) => {
  const ranges: SetSpec = {
    ...plain,
    name: "ranges",
    key: ["ipv4_addr", "inet_proto", "inet_service"],
    interval: true,
  };
  expect(keyJson(ranges, key)).toEqual({ concat: ["10.0.0.1", "tcp", last] });
});
