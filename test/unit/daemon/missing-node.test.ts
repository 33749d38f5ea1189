import { setImmediate } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { watchForNode } from "../../../src/daemon/object-source.ts";
import type { SourceHandler, SourceHandlers } from "../../../src/kube/source.ts";
import { node } from "../../support/build.ts";
import { memoryLogger } from "../../support/memory-logger.ts";

const NOTHING: SourceHandler<unknown> = { onUpsert() {}, onDelete() {}, onInvalid() {}, onSynced() {} };
const HANDLERS: SourceHandlers = {
  services: NOTHING,
  endpointslices: NOTHING,
  nodes: NOTHING,
  servicecidrs: NOTHING,
};

/** Returns a daemon on worker-11. The API server has Nodes of these names. */
function watching(names: readonly string[]) {
  const logger = memoryLogger();
  const { nodes } = watchForNode(HANDLERS, "worker-11", async () => names, logger);
  const put = (name: string): void => nodes.onUpsert(name, node({ name }), undefined);
  const lines = async () => {
    await setImmediate();
    return logger.lines.map(({ level, message, fields }) => ({ level, message, nearest: fields.nearest }));
  };
  return { nodes, put, lines };
}

const WARNING = "no Node has this name, continuing without it";

describe("a daemon whose Node does not exist", () => {
  test("warns once, with the nearest names among the API server's Nodes", async () => {
    const { nodes, lines } = watching(["control", "worker-2", "worker-1"]);
    nodes.onSynced();
    nodes.onSynced();
    expect(await lines()).toEqual([
      { level: "warn", message: WARNING, nearest: ["worker-1", "worker-2", "control"] },
    ]);
  });

  test("warns with the names of the Nodes in its files", async () => {
    const { nodes, put, lines } = watching([]);
    put("worker-1");
    nodes.onSynced();
    expect(await lines()).toEqual([{ level: "warn", message: WARNING, nearest: ["worker-1"] }]);
  });

  test("warns without names if Nodes cannot be listed", async () => {
    const { nodes, lines } = watching([]);
    nodes.onSynced();
    expect(await lines()).toEqual([{ level: "warn", message: WARNING, nearest: undefined }]);
  });

  test("logs once when the Node appears", async () => {
    const { nodes, put, lines } = watching(["worker-1"]);
    nodes.onSynced();
    await lines();
    put("worker-11");
    put("worker-11");
    expect((await lines()).map(({ message }) => message)).toEqual([WARNING, "the Node exists now"]);
  });
});

test("a daemon whose Node exists logs nothing about it", async () => {
  const { nodes, put, lines } = watching(["worker-1"]);
  put("worker-11");
  nodes.onSynced();
  expect(await lines()).toEqual([]);
});
