import { expect, test } from "vitest";
import { fileOrigin } from "../../../src/daemon/object-source.ts";
import { townObjects } from "../../support/command.ts";
import { memoryLogger } from "../../support/memory-logger.ts";

test("the Services of files that nft-proxy does not serve are named", async () => {
  const logger = memoryLogger();
  const { ignored, loadBalancers, problem } = await fileOrigin(
    [townObjects("town")],
    "node-1",
    logger,
  ).unservedServices();
  expect(problem).toBeUndefined();
  expect(ignored.map(({ name, why }) => `${name} ${why}`)).toEqual([
    "edge/not-ours other-proxy",
    "shop/external-name external-name",
    "shop/frontend-headless headless",
  ]);
  expect(ignored[0]?.addresses).toContain("10.96.2.9");
  expect(loadBalancers).toEqual([{ service: "edge/proxied-lb", address: "203.0.113.26" }]);
});

test("the reason is reported if the Services of files are unknown", async () => {
  const logger = memoryLogger();
  expect(await fileOrigin(["/nowhere"], "node-1", logger).unservedServices()).toEqual({
    ignored: [],
    loadBalancers: [],
    problem: "cannot read /nowhere: no such file or directory",
  });
});
