import { expect, test } from "vitest";
import { liveDifferences } from "../../../../src/inspect/explain/differences.ts";
import { type ExplainInput, hostOf } from "../../../../src/inspect/explain/explain-input.ts";
import { connectionOf } from "../../../../src/inspect/explain/packet.ts";
import type { Ruleset } from "../../../../src/nft/ast/ruleset.ts";
import { Renderer } from "../../../../src/ruleset/renderer.ts";
import { LISTS, NO_ENDPOINTS } from "../../../../src/ruleset/sets.ts";
import { cacheOf, endpoint, service, slice, testNodeContext } from "../../../support/build.ts";

const FRONTEND = "10.96.0.10 . tcp . 80";

/** Returns a ruleset with other elements of these sets. */
function changed({ ip }: Ruleset, others: readonly (readonly [set: string, value: string])[]): Ruleset {
  const sets = new Map(ip?.sets);
  for (const [name, value] of others) {
    const set = sets.get(name);
    if (set !== undefined) sets.set(name, { ...set, elements: new Map([[FRONTEND, value]]) });
  }
  return ip === undefined ? {} : { ip: { ...ip, sets } };
}

test("liveDifferences lists elements by set, in each set those first that the kernel lacks", () => {
  const cache = cacheOf({ services: [service()], slices: [slice({ endpoints: [endpoint("10.244.1.5")] })] });
  const nodeContext = testNodeContext();
  const renderer = new Renderer(cache, nodeContext);
  renderer.update(cache.takeDirty());
  const { state } = renderer;
  const ruleset = changed(state.ruleset, [
    [NO_ENDPOINTS, "goto reject"],
    [LISTS, "1"],
  ]);
  const input: ExplainInput = {
    cache,
    nodeContext,
    state,
    ignored: [],
    loadBalancers: [],
    objectsKnown: true,
    host: hostOf(nodeContext, []),
    live: {
      ruleset,
      otherTables: { tables: [], older: { ip: 0, ip6: 0 } },
      interfaceTo: () => undefined,
      affinityEntries: [],
    },
  };
  const connection = connectionOf({ to: "10.96.0.10", port: 80, protocol: "tcp" }, input);
  expect(liveDifferences(connection, input)).toEqual([
    `only in the kernel: ${NO_ENDPOINTS} { ${FRONTEND} : goto reject }`,
    `missing in the kernel: ${LISTS} { ${FRONTEND} : 8000:4 }`,
    `only in the kernel: ${LISTS} { ${FRONTEND} : 0:1 }`,
  ]);
});
