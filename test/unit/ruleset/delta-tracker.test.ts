import { describe, expect, test } from "vitest";
import type { Chain, SetSpec } from "../../../src/nft/ast/ruleset.ts";
import { DeltaTracker } from "../../../src/ruleset/delta-tracker.ts";

const SET: SetSpec = { name: "cluster-ips", key: ["ipv4_addr"], dynamic: false, counter: false };
const MAP: SetSpec = {
  name: "service-ips",
  key: ["ipv4_addr"],
  value: "verdict",
  dynamic: false,
  counter: false,
};
const chain = (name: string, count = 1): Chain => ({
  name,
  rules: Array.from({ length: count }, () => [{ drop: null }]),
});

/** A tracker whose kernel has one element and one chain. */
function committed(): DeltaTracker {
  const tracker = new DeltaTracker("ip", [SET, MAP]);
  tracker.setElement("service-ips", "10.96.0.1", "drop");
  tracker.putChain(chain("balance-1"));
  tracker.markCommitted();
  return tracker;
}

describe("a delta tracker", () => {
  test("has nothing pending after a commit", () => {
    expect(committed().pending()).toBeUndefined();
  });

  test("has elements and chains pending that were added, changed or deleted", () => {
    const tracker = committed();
    tracker.setElement("service-ips", "10.96.0.1", "goto balance-2");
    tracker.setElement("cluster-ips", "10.96.0.2", "");
    tracker.deleteChain("balance-1");
    tracker.putChain(chain("balance-2"));
    expect(tracker.pending()).toMatchObject({
      mode: "change",
      objects: [
        { kind: "chain", name: "balance-1", before: chain("balance-1"), after: undefined },
        { kind: "chain", name: "balance-2", before: undefined, after: chain("balance-2") },
      ],
      elements: [
        {
          spec: MAP,
          deleted: [{ key: "10.96.0.1", value: "drop" }],
          added: [{ key: "10.96.0.1", value: "goto balance-2" }],
        },
        { spec: SET, deleted: [], added: [{ key: "10.96.0.2", value: "" }] },
      ],
    });
  });

  test("has everything pending before the first commit, and nothing committed", () => {
    const tracker = new DeltaTracker("ip", [SET, MAP]);
    tracker.setElement("service-ips", "10.96.0.1", "drop");
    tracker.setElement("service-ips", "10.96.0.1", "goto balance-1");
    tracker.setElement("cluster-ips", "10.96.0.2", "");
    tracker.deleteElement("cluster-ips", "10.96.0.2");
    tracker.putChain(chain("balance-1"));
    expect(tracker.pending()).toMatchObject({
      objects: [{ name: "balance-1", before: undefined }],
      elements: [{ spec: MAP, deleted: [], added: [{ key: "10.96.0.1", value: "goto balance-1" }] }],
    });
    const { sets, chains } = tracker.committedTable();
    expect([chains.size, ...[...sets.values()].map(({ elements }) => elements.size)]).toEqual([0, 0, 0]);
  });

  test("has nothing pending when every change was undone", () => {
    const tracker = committed();
    tracker.deleteElement("service-ips", "10.96.0.1");
    tracker.setElement("service-ips", "10.96.0.1", "drop");
    tracker.setElement("cluster-ips", "10.96.0.2", "");
    tracker.deleteElement("cluster-ips", "10.96.0.2");
    tracker.putChain(chain("balance-1", 2));
    tracker.putChain(chain("balance-1"));
    expect(tracker.pending()).toBeUndefined();
  });

  test("gives the committed table while changes are pending", () => {
    const tracker = committed();
    tracker.setElement("service-ips", "10.96.0.1", "goto balance-2");
    tracker.deleteChain("balance-1");
    const { sets, chains } = tracker.committedTable();
    expect(sets.get("service-ips")?.elements).toEqual(new Map([["10.96.0.1", "drop"]]));
    expect([...chains.keys()]).toEqual(["balance-1"]);
    expect(tracker.table.chains.size).toBe(0);
  });

  test("has sets pending that were added and deleted, and not those that came and went", () => {
    const ranges: SetSpec = {
      name: "source-ranges-1",
      key: ["ipv4_addr"],
      dynamic: false,
      counter: false,
      interval: true,
    };
    const passing: SetSpec = { ...ranges, name: "source-ranges-2" };
    const tracker = committed();
    const put = (spec: SetSpec) => {
      tracker.putSet(spec);
      tracker.setElement(spec.name, "10.0.0.0/8", "");
    };
    put(ranges);
    put(passing);
    tracker.deleteSet(passing.name);
    expect(tracker.pending()).toMatchObject({
      objects: [{ kind: "set", before: undefined, after: ranges }],
      elements: [{ spec: ranges, deleted: [], added: [{ key: "10.0.0.0/8", value: "" }] }],
    });
    expect([...tracker.committedTable().sets.keys()]).toEqual([SET.name, MAP.name]);
    tracker.markCommitted();
    tracker.deleteSet(ranges.name);
    expect(tracker.pending()).toMatchObject({ objects: [{ kind: "set", before: ranges }], elements: [] });
    expect([...(tracker.committedTable().sets.get(ranges.name)?.elements.keys() ?? [])]).toEqual([
      "10.0.0.0/8",
    ]);
    put(ranges);
    expect(tracker.pending()).toBeUndefined();
  });

  test("has the elements pending that a set lacks when it returns", () => {
    const tracker = committed();
    tracker.deleteSet(MAP.name);
    tracker.putSet(MAP);
    tracker.setElement(MAP.name, "10.96.0.9", "drop");
    expect(tracker.pending()).toMatchObject({
      objects: [],
      elements: [
        {
          spec: MAP,
          deleted: [{ key: "10.96.0.1", value: "drop" }],
          added: [{ key: "10.96.0.9", value: "drop" }],
        },
      ],
    });
    const before = new Map([["10.96.0.1", "drop"]]);
    expect(tracker.committedTable().sets.get(MAP.name)?.elements).toEqual(before);
    tracker.deleteSet(MAP.name);
    expect(tracker.pending()).toMatchObject({ objects: [{ kind: "set", before: MAP }], elements: [] });
    expect(tracker.committedTable().sets.get(MAP.name)?.elements).toEqual(before);
  });

  test("refuses an element of a set that the table does not have", () => {
    expect(() => committed().setElement("endpoints", "10.96.0.1", "")).toThrow("no set endpoints");
  });
});
