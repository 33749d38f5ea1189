import { expect, test } from "vitest";
import { UdpServicePorts } from "../../../src/conntrack/stale-flows.ts";
import { staleFlows } from "../../../src/daemon/host-subscribers.ts";
import { cacheOf, named, port, service } from "../../support/build.ts";
import { syncReport } from "../../support/sync-report.ts";

test("stale flows are deleted after a change of a UDP Service, and after every full sync", () => {
  const cache = cacheOf({ services: [service(), service({ name: "dns", ports: [port(53, { protocol: "udp" })] })] });
  let cleanings = 0;
  const subscriber = staleFlows(new UdpServicePorts(cache), {
    clean: async () => {
      cleanings++;
    },
  });
  const after = (kind: "partial" | "full", ...rendered: readonly string[]) => {
    subscriber.synced(syncReport({ kind, rendered: new Set(rendered.map(named)) }));
    return cleanings;
  };
  expect(after("partial", "web")).toBe(0);
  expect(after("partial", "web", "dns")).toBe(1);
  expect(after("full"), "rules that were missing let flows pass untranslated").toBe(2);
});
