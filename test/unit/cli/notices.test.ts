import { expect, test } from "vitest";
import { budgetNotices, conflictNotices } from "../../../src/cli/notices.ts";
import { port, renderAll, service, testNodeContext } from "../../support/build.ts";

test("of many conflicts, 20 are listed, each with five of the losers, and the others are counted", () => {
  const ports = Array.from({ length: 30 }, (_, i) => port(1000 + i, { name: `p${i}` }));
  const services = Array.from({ length: 40 }, (_, i) => service({ name: `s${10 + i}`, createdAt: i, ports }));
  const notices = conflictNotices(renderAll({ services }).state.conflicts());
  expect(notices).toHaveLength(21);
  expect(notices[0]).toBe(
    "warning: 10.96.0.10:1000/tcp belongs to default/s10:p0/tcp, the oldest that uses it; not to default/s11:p0/tcp, default/s12:p0/tcp, default/s13:p0/tcp, default/s14:p0/tcp, default/s15:p0/tcp and 34 more",
  );
  expect(notices.at(-1)).toBe(
    "warning: several Services want the same address and port in 10 more cases: nft-proxy explain --all --problems lists them",
  );
});

const services = (count: number) =>
  Array.from({ length: count }, (_, i) =>
    service({
      name: `a/s${i}`,
      createdAt: i,
      clusterIPs: [`10.96.1.${i}`, `fd00:10:96::1:${i}`],
      affinitySeconds: 60,
    }),
  );

test("notices on budgets name each Service once, and count those beyond twenty", () => {
  const notices = budgetNotices(
    renderAll({ services: services(30) }, testNodeContext({ maxElements: 5 * 4 + 3 })),
  );
  expect(notices).toHaveLength(21);
  expect(notices[0]).toMatch(
    /^error: Service a\/s\d+ is quarantined and gets no rules: all Services together can have 23 elements/,
  );
  expect(notices.at(-1)).toBe("and 5 more Services");
});

test("notices on session affinity that is not kept are warnings", () => {
  expect(budgetNotices(renderAll({ services: services(3) }, testNodeContext({ maxStickyPorts: 4 })))).toEqual(
    [
      "warning: Service a/s2 is served without session affinity: the Services of a namespace can have 2 ports with session affinity in a family, and this one has 1, 1 more than older ones leave",
    ],
  );
});
