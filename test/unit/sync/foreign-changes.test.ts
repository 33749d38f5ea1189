import { endianness } from "node:os";
import { describe, expect, test } from "vitest";
import type { Family } from "../../../src/base/family.ts";
import { encodedElement } from "../../../src/netlink/element-bytes.ts";
import type { RawElement } from "../../../src/netlink/raw-element.ts";
import { diffRuleset } from "../../../src/nft/delta.ts";
import { committedChanges } from "../../../src/sync/foreign-changes.ts";
import type { TableMessage } from "../../../src/sync/kernel-events.ts";
import { everyRule } from "../../support/every-rule.ts";

const desired = everyRule();

const PLACE = { portId: 99, table: "nft-proxy" };

/** A message about elements as the kernel would tell it. */
function message(op: "new" | "delete", family: Family, set: string, key: string, value = ""): TableMessage {
  const spec = desired[family]?.sets.get(set)?.spec;
  if (spec === undefined) throw new Error(`no set ${set}`);
  // The kernel tells of counters and times as well.
  const beside = { isCatchAll: false, packets: 7, bytes: 420, timeoutMs: 900_000, expiresMs: 899_988 };
  return rawMessage(op, family, set, { ...encodedElement(spec, key, value, endianness()), ...beside });
}

function rawMessage(
  op: "new" | "delete",
  family: Family,
  set: string,
  ...elements: RawElement[]
): TableMessage {
  return { ...PLACE, kind: "elements", op, family, set, elements };
}

/** The differences in words: `- key` is to be deleted, `+ key => value` to be added. */
function found(...messages: readonly TableMessage[]): string[] | undefined {
  return committedChanges(messages, desired)?.deltas.flatMap(({ family, elements }) =>
    elements.flatMap(({ spec, deleted, added }) => [
      ...deleted.map((key) => `- ${family} ${spec.name} ${key}`),
      ...added.map(({ key, value }) => `+ ${family} ${spec.name} ${key} => ${value}`),
    ]),
  );
}

const FRONTEND = "10.96.1.1 . tcp . 80";
const LIST = desired.ip?.sets.get("lists")?.elements.get(FRONTEND) ?? "";
const [BALANCER = "", TARGET = ""] = [...(desired.ip?.sets.get("balancers")?.elements ?? [])].at(-1) ?? [];

describe("committedChanges", () => {
  test("finds an element that was deleted, and one that was added", () => {
    expect(found(message("delete", "ip", "lists", FRONTEND, LIST))).toEqual([
      `+ ip lists ${FRONTEND} => ${LIST}`,
    ]);
    expect(found(message("new", "ip6", "cluster-ips", "fd00::68"))).toEqual(["- ip6 cluster-ips fd00::68"]);
  });

  test("finds an element that has another value now", () => {
    const key = "2147483652 . 0";
    const value = desired.ip?.sets.get("endpoints")?.elements.get(key) ?? "";
    expect(
      found(
        message("delete", "ip", "endpoints", key, value),
        message("new", "ip", "endpoints", key, "192.0.2.7 . 8080"),
      ),
    ).toEqual([`- ip endpoints ${key}`, `+ ip endpoints ${key} => ${value}`]);
    expect(found(message("new", "ip", "balancers", BALANCER, "goto trap"))).toEqual([
      `- ip balancers ${BALANCER}`,
      `+ ip balancers ${BALANCER} => ${TARGET}`,
    ]);
  });

  test("finds ranges of ports", () => {
    expect(
      found(
        message("delete", "ip", "range-lists", "10.96.1.1 . tcp . 1024-2047", LIST),
        message("new", "ip", "range-lists", "10.96.1.1 . tcp . 8000-8099", LIST),
      ),
    ).toEqual([
      "- ip range-lists 10.96.1.1 . tcp . 8000-8099",
      `+ ip range-lists 10.96.1.1 . tcp . 1024-2047 => ${LIST}`,
    ]);
  });

  test("finds nothing where the last message left an element as it should be", () => {
    expect(
      found(message("delete", "ip", "lists", FRONTEND, LIST), message("new", "ip", "lists", FRONTEND, LIST)),
    ).toEqual([]);
    expect(
      found(
        message("new", "ip", "cluster-ips", "192.0.2.1"),
        message("delete", "ip", "cluster-ips", "192.0.2.1"),
      ),
    ).toEqual([]);
    expect(
      found(
        message("delete", "ip", "cluster-ips", "192.0.2.1"),
        message("new", "ip", "cluster-ips", "192.0.2.1"),
      ),
      "the other way round",
    ).toEqual(["- ip cluster-ips 192.0.2.1"]);
  });

  test("keeps the families apart", () => {
    expect(
      found(
        message("new", "ip6", "balancers", BALANCER, TARGET),
        message("delete", "ip", "balancers", BALANCER, TARGET),
      ),
    ).toContain(`+ ip balancers ${BALANCER} => ${TARGET}`);
  });

  test("does not look at what packets fill, whatever it is", () => {
    const [dynamic = ""] = [...(desired.ip?.sets.values() ?? [])]
      .filter(({ spec }) => spec.dynamic)
      .map(({ spec }) => spec.name);
    const raw = { key: "anything", isEnd: true, isCatchAll: true, value: "?" };
    expect(committedChanges([rawMessage("new", "ip", dynamic, raw)], desired)).toEqual({
      deltas: [],
      areDeclarations: false,
    });
  });

  test.each(["table", "chain", "rule", "set", "flowtable", "object"] as const)(
    "tells that a %s was touched",
    (kind) => {
      const touched: TableMessage = { ...PLACE, kind, op: "new", family: "ip", name: "services" };
      const changes = committedChanges([message("new", "ip", "cluster-ips", "192.0.2.1"), touched], desired);
      expect([changes?.areDeclarations, changes?.deltas.length]).toEqual([true, 1]);
      expect(
        committedChanges([message("new", "ip", "cluster-ips", "192.0.2.1")], desired)?.areDeclarations,
      ).toBe(false);
    },
  );

  test("takes elements of a set that we do not have for a declaration", () => {
    const raw = { key: "", isEnd: false, isCatchAll: false, value: "" };
    expect(committedChanges([rawMessage("new", "ip", "intruders", raw)], desired)).toEqual({
      deltas: [],
      areDeclarations: true,
    });
  });

  const good = { key: "\xc0\0\x02\x01", isEnd: false, isCatchAll: false, value: "" };
  test.each<[string, RawElement]>([
    ["a range where we have addresses", { ...good, keyEnd: "\xc0\0\x02\x09" }],
    ["an end of an interval", { ...good, isEnd: true }],
    ["a key of another length", { ...good, key: "\xc0\0\x02" }],
    ["a verdict in a set", { ...good, value: "drop" }],
  ])("does not know what changed with %s", (_what, raw) => {
    expect(found(rawMessage("new", "ip", "no-endpoint-services", raw))).toBeUndefined();
  });

  test("does not know what changed with bounds of intervals", () => {
    const [ranges = ""] = [...(desired.ip?.sets.keys() ?? [])].filter((name) =>
      name.startsWith("source-ranges-"),
    );
    expect(found(rawMessage("new", "ip", ranges, good))).toBeUndefined();
  });

  test("finds what makes the tables right again", () => {
    const { ip } = everyRule();
    if (ip === undefined) throw new Error("no table");
    const [name, key] = ["cluster-ips", "10.96.1.1"];
    const { spec, elements } = ip.sets.get(name) ?? { spec: undefined, elements: new Map<string, string>() };
    if (spec === undefined) throw new Error("no set");
    const fewer = new Map([...elements].filter(([one]) => one !== key));
    const kernel = {
      ...desired,
      ip: { ...ip, sets: new Map([...ip.sets, [name, { spec, elements: fewer }]]) },
    };
    expect(committedChanges([message("delete", "ip", name, key)], desired)?.deltas).toEqual(
      diffRuleset(kernel, desired),
    );
  });
});
