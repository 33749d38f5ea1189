import { endianness } from "node:os";
import { describe, expect, test } from "vitest";
import type { Family } from "../../../src/base/family.ts";
import { committedChanges, ForeignCommits } from "../../../src/drift/foreign-commits.ts";
import type { TableMessage } from "../../../src/drift/kernel-events.ts";
import type { RawElement } from "../../../src/netlink/raw-element.ts";
import { diffRuleset } from "../../../src/nft/delta.ts";
import { encodedElement } from "../../support/encoded-elements.ts";
import { everyRule } from "../../support/every-rule.ts";

const desired = everyRule();

const PLACE = { portId: 99, table: "nft-proxy", elements: [] };

/** A message about elements as the kernel would tell it. */
function message(op: "new" | "delete", family: Family, set: string, key: string, value = ""): TableMessage {
  const spec = desired[family]?.sets.get(set)?.spec;
  if (spec === undefined) throw new Error(`no set ${set}`);
  // The kernel tells of counters and times as well.
  const beside = { packets: 7, timeoutMs: 900_000, expiresMs: 899_988 };
  return rawMessage(op, family, set, { ...encodedElement(spec, key, value, endianness()), ...beside });
}

function rawMessage(
  op: "new" | "delete",
  family: Family,
  set: string,
  ...elements: RawElement[]
): TableMessage {
  return { ...PLACE, kind: "elements", op, family, name: set, elements };
}

/** The differences in words: `- key` is to be deleted, `+ key => value` to be added. */
function found(...messages: readonly TableMessage[]): string[] | undefined {
  return committedChanges(messages, desired)?.flatMap(({ family, elements }) =>
    elements.flatMap(({ spec, deleted, added }) => [
      ...deleted.map(({ key }) => `- ${family} ${spec.name} ${key}`),
      ...added.map(({ key, value }) => `+ ${family} ${spec.name} ${key} => ${value}`),
    ]),
  );
}

const FRONTEND = "10.96.1.1 . tcp . 80";
const LIST = desired.ip?.sets.get("lists")?.elements.get(FRONTEND) ?? "";
const [BALANCER = "", TARGET = ""] = [...(desired.ip?.sets.get("balancers")?.elements ?? [])].at(-1) ?? [];

describe("committedChanges", () => {
  test("finds deleted and added elements", () => {
    expect(found(message("delete", "ip", "lists", FRONTEND, LIST))).toEqual([
      `+ ip lists ${FRONTEND} => ${LIST}`,
    ]);
    expect(found(message("new", "ip6", "cluster-ips", "fd00::68"))).toEqual(["- ip6 cluster-ips fd00::68"]);
  });

  test("finds an element whose value changed", () => {
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

  test("finds port ranges", () => {
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

  test("finds nothing if the last message restored an element", () => {
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

  test("ignores sets that packets fill", () => {
    const [dynamic = ""] = [...(desired.ip?.sets.values() ?? [])]
      .filter(({ spec }) => spec.dynamic)
      .map(({ spec }) => spec.name);
    const raw = { key: "anything", isEnd: true, value: "?" };
    expect(committedChanges([rawMessage("new", "ip", dynamic, raw)], desired)).toEqual([]);
  });

  test("ignores elements of a set that we do not have", () => {
    const raw = { key: "", isEnd: false, value: "" };
    expect(committedChanges([rawMessage("new", "ip", "intruders", raw)], desired)).toEqual([]);
  });

  const good = { key: "\xc0\0\x02\x01", isEnd: false, value: "" };
  test.each<[string, RawElement]>([
    ["a range where we have addresses", { ...good, keyEnd: "\xc0\0\x02\x09" }],
    ["an end of an interval", { ...good, isEnd: true }],
    ["a key of another length", { ...good, key: "\xc0\0\x02" }],
    ["a verdict in a set", { ...good, value: "drop" }],
  ])("does not know what changed with %s", (_what, raw) => {
    expect(found(rawMessage("new", "ip", "no-endpoint-services", raw))).toBeUndefined();
  });

  test("finds the changes that restore the tables", () => {
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
    expect(committedChanges([message("delete", "ip", name, key)], desired)).toEqual(
      diffRuleset(kernel, desired),
    );
  });
});

describe("ForeignCommits", () => {
  const OTHER = "other (process 99)";
  const foreign = (...messages: TableMessage[]) => ({ messages, author: OTHER, isForeign: true });
  const own = (...messages: TableMessage[]) => ({ messages, author: "nft (process 1)", isForeign: false });
  const LOST = message("delete", "ip", "lists", FRONTEND, LIST);
  const BACK = message("new", "ip", "lists", FRONTEND, LIST);
  const EXTRA = message("new", "ip", "cluster-ips", "192.0.2.1");
  const made = (...all: readonly Parameters<ForeignCommits["add"]>[0][]) => {
    const commits = new ForeignCommits();
    for (const commit of all) commits.add(commit);
    return commits;
  };
  const keys = ({ deltas }: ReturnType<ForeignCommits["takeElements"]>) =>
    deltas?.flatMap(({ elements }) =>
      elements.flatMap(({ deleted, added }) => [...deleted, ...added].map(({ key }) => key)),
    );

  test("compares elements that others touched, whoever touched them last, and no others of ours", () => {
    const others = own(message("delete", "ip", "cluster-ips", "10.96.1.1"));
    expect(keys(made(others, foreign(LOST, EXTRA), others).takeElements(desired))).toEqual([
      FRONTEND,
      "192.0.2.1",
    ]);
    expect(keys(made(foreign(LOST, EXTRA), own(BACK)).takeElements(desired))).toEqual(["192.0.2.1"]);
    expect(keys(made(own(BACK), foreign(LOST)).takeElements(desired))).toEqual([FRONTEND]);
  });

  test("needs the elements of our commits from a foreign commit on, until it was examined", () => {
    const commits = made(own(LOST));
    expect(commits.needsElementsOfOwnCommits).toBe(false);
    commits.add(foreign(LOST));
    expect(commits.needsElementsOfOwnCommits).toBe(true);
    commits.takeElements(desired);
    expect(commits.needsElementsOfOwnCommits).toBe(false);
  });

  test("is empty after only our commits, and after the commits were examined", () => {
    const commits = made(own(LOST));
    expect(commits.isAny).toBe(false);
    commits.add(foreign(LOST));
    expect(commits.isAny).toBe(true);
    commits.takeElements(desired);
    expect([commits.isAny, keys(commits.takeElements(desired))]).toEqual([false, []]);
  });

  test.each(["table", "chain", "rule", "set", "flowtable", "object"] as const)(
    "tells that others touched a %s, once, and does not ask of ours",
    (kind) => {
      const touched: TableMessage = { ...PLACE, kind, op: "new", family: "ip", name: "services" };
      const commits = made(own(touched), foreign(EXTRA, touched), own(touched));
      expect([commits.takeDeclarations(), commits.takeDeclarations()]).toEqual([true, false]);
      expect([made(own(touched), foreign(EXTRA)).takeDeclarations()]).toEqual([false]);
    },
  );

  test("records that others touch declarations while these are compared", () => {
    const touched: TableMessage = { ...PLACE, kind: "chain", op: "new", family: "ip", name: "services" };
    const commits = made(foreign(touched));
    commits.takeDeclarations();
    commits.add(foreign(touched, EXTRA));
    expect(keys(commits.takeElements(desired))).toEqual(["192.0.2.1"]);
    expect([commits.isAny, commits.takeDeclarations()]).toEqual([true, true]);
    expect([keys(commits.takeElements(desired)), commits.isAny]).toEqual([[], false]);
  });

  test("names the author of the last commit that made a difference, otherwise of the last one", () => {
    const second = {
      ...foreign(EXTRA, message("delete", "ip", "cluster-ips", "192.0.2.1")),
      author: "second",
    };
    expect(made(foreign(LOST), second, own(BACK)).takeElements(desired).author).toBe(OTHER);
    expect(made(second).takeElements(desired).author).toBe("second");
  });

  test("names who touched declarations, rather than a later author of elements that do not differ", () => {
    const touched: TableMessage = { ...PLACE, kind: "chain", op: "new", family: "ip", name: "services" };
    const second = (...messages: TableMessage[]) => ({ ...foreign(...messages), author: "second" });
    for (const [message, author] of [
      [BACK, OTHER],
      [LOST, "second"],
    ] as const) {
      const commits = made(foreign(touched), second(message));
      commits.takeDeclarations();
      expect(commits.takeElements(desired).author).toBe(author);
    }
  });

  test("cannot tell changes of more than 3000 elements by others, until these were examined", () => {
    const many = Array.from({ length: 3001 }, (_, n) =>
      message("new", "ip", "cluster-ips", `198.18.${n >> 8}.${n & 255}`),
    );
    expect(made(foreign(...many.slice(1))).takeElements(desired).deltas).toHaveLength(1);
    expect(made(foreign(LOST), own(...many)).takeElements(desired).deltas).toHaveLength(1);
    const commits = made(foreign(...many.slice(1)), foreign(LOST));
    expect(commits.takeElements(desired)).toEqual({ deltas: undefined, author: OTHER });
    commits.add(foreign(LOST));
    expect(keys(commits.takeElements(desired))).toEqual([FRONTEND]);
  });

  test("keeps no more of one element that others and we change again and again", () => {
    const times = Array.from({ length: 1501 }, () => [foreign(LOST), own(BACK)]).flat();
    expect(made(...times.slice(0, 3000)).takeElements(desired).deltas).toEqual([]);
    expect(made(...times).takeElements(desired).deltas).toBeUndefined();
  });
});
