import { expect, test } from "vitest";
import { conflictNotices } from "../../../src/cli/notices.ts";
import { port, renderAll, service } from "../../support/build.ts";

test("of many conflicts 20 are told, each with five of the losers, and the others are counted", () => {
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
