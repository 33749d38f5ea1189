import { expect, test } from "vitest";
import { port, renderAll, service, testNodeContext } from "../../support/build.ts";

test.each([
  ["off", []],
  ["services", ["lists", "range-lists"]],
  ["endpoints", ["endpoints", "lists", "range-endpoints", "range-lists"]],
])("with --service-counters=%s, the sets that count are %j", (serviceCounters, counting) => {
  const ports = [port(80, { ranges: [{ first: 8080, last: 8099 }] })];
  const { state } = renderAll(
    { services: [service({ ports })] },
    testNodeContext({ settings: { serviceCounters } }),
  );
  const sets = [...(state.ruleset.ip?.sets.values() ?? [])];
  expect(sets.flatMap(({ spec }) => (spec.counter ? [spec.name] : [])).sort()).toEqual(counting);
});
