import { describe, expect, test } from "vitest";
import { SyncHistory } from "../../../../src/daemon/health/sync-history.ts";
import { html } from "../../../../src/daemon/status/html.ts";
import { readStatusQuery, statusLink } from "../../../../src/daemon/status/service-list.ts";
import { statusPage } from "../../../../src/daemon/status/status-page.ts";
import {
  endpoint,
  type Objects,
  port,
  renderAll,
  service,
  slice,
  testNodeContext,
} from "../../../support/build.ts";
import { daemonStatus } from "../../../support/status.ts";
import { MISSING_TABLE, syncReport } from "../../../support/sync-report.ts";

const page = (objects: Objects, query = "") =>
  statusPage(daemonStatus(objects), new URLSearchParams(query)).body;

describe("html", () => {
  test("escapes text, and keeps its own markup", () => {
    expect(html`<p title="${`"'`}">${html`<b>${"<&>"}</b>`}${undefined}${[html`1`, html`2`]}</p>`.text).toBe(
      '<p title="&#34;&#39;"><b>&#60;&#38;&#62;</b>12</p>',
    );
  });
});

describe("the status page's query", () => {
  test.each([
    ["", "/"],
    ["q=Cart&show=problems&page=3&refresh=5", "/?q=cart&show=problems&page=3&refresh=5"],
    ["page=0&refresh=1&show=all", "/"],
    ["refresh=30", "/"],
    ["refresh=0", "/?refresh=0"],
    ["page=-1", "/"],
    ["page=1e99", "/"],
    ["q=%20%26%3D%20", "/?q=%26%3D"],
    ["service=shop%2Fcart", "/?service=shop%2Fcart"],
  ])("%j is written in links as %s", (text, link) => {
    expect(statusLink(readStatusQuery(new URLSearchParams(text)), {})).toBe(link);
  });

  test("is cut if it is longer than any name", () => {
    expect(readStatusQuery(new URLSearchParams({ q: "x".repeat(100_000) })).text).toHaveLength(300);
  });
});

test("the status page says why a Service has no rules, and shows only its cluster IP", () => {
  const ports = Array.from({ length: 50 }, (_, i) => port(i + 1, { name: `p${i}` }));
  const services = [service({ name: "big", ports, externalIPs: ["203.0.113.1"] })];
  const nodeContext = testNodeContext({ maxServiceElements: 5 });
  const renderer = renderAll({ services }, nodeContext);
  const status = daemonStatus(
    { services },
    { nodeContext, state: renderer.state, quarantined: renderer.excess },
  );
  const { body } = statusPage(status, new URLSearchParams({ service: "default/big" }));
  expect(body).toContain(
    "quarantined: a Service can have 5 elements in the kernel (--max-service-elements), and this one has 101",
  );
  expect(body).toContain("10.96.0.10:1<");
  expect(body).not.toContain("10.96.0.10:2<");
  expect(body).not.toContain("203.0.113.1");
});

test.each([
  ["virtual", true],
  ["all", false],
] as const)(
  "the status page says whether port ranges (%s) are served at the node's own addresses",
  (portRanges, isSaid) => {
    const ports = [port(80, { ranges: [{ first: 1000, last: 1009 }] })];
    const services = [service({ name: "media", ports, externalIPs: ["203.0.113.1"] })];
    const nodeContext = testNodeContext({ settings: { portRanges } });
    const { state } = renderAll({ services }, nodeContext);
    const { body } = statusPage(
      daemonStatus({ services }, { nodeContext, state }),
      new URLSearchParams("service=default/media"),
    );
    const said = "external IP, not where the address is the node&#39;s own<";
    expect(body.split(said).length - 1).toBe(isSaid ? 1 : 0);
  },
);

describe("the status page", () => {
  test("allows no scripts and only its own style", () => {
    const { headers = {}, body } = statusPage(daemonStatus({}), new URLSearchParams());
    const policy = headers["Content-Security-Policy"] ?? "";
    expect(policy).toMatch(/^default-src 'none'; style-src 'sha256-[\w+/=]{44}'; /);
    expect(policy).not.toContain("unsafe");
    expect(body).not.toMatch(/<script|\sstyle=|\son\w+=/);
  });

  test("shows its last page for a page number beyond it", () => {
    const services = Array.from({ length: 120 }, (_, i) =>
      service({ name: `s-${i}`, clusterIPs: [`10.96.1.${i}`] }),
    );
    expect(page({ services }, "page=99")).toContain("120 of 120 Services, page 3 of 3");
  });

  test("lists 20 endpoints of a port, and all endpoints on the Service's own page", () => {
    const endpoints = Array.from({ length: 100 }, (_, i) => endpoint(`10.244.0.${i}`));
    const objects = { services: [service()], slices: [slice({ endpoints })] };
    expect(page(objects).match(/<tr><td><code>10\.244/g)).toHaveLength(20);
    expect(page(objects)).toContain(">and 80 more</a>");
    expect(page(objects, "service=default%2Fweb").match(/<tr><td><code>10\.244/g)).toHaveLength(100);
  });

  test("names a Service's own scheduler, and the default of --scheduler if that is not random", () => {
    const services = [
      service({ name: "shop/own", clusterIPs: ["10.96.1.1"], scheduler: "random" }),
      service({ name: "shop/none", clusterIPs: ["10.96.1.2"] }),
    ];
    const badges = (scheduler: "random" | "round-robin") => {
      const status = daemonStatus(
        { services },
        { nodeContext: testNodeContext({ settings: { scheduler } }) },
      );
      return ["shop/own", "shop/none"].map((name) => {
        const { body } = statusPage(status, new URLSearchParams({ service: name }));
        return [...body.matchAll(/class="badge">([^<]*)</g)].map(([, text]) => text);
      });
    };
    expect(badges("random")).toEqual([["random"], []]);
    expect(badges("round-robin")).toEqual([["random"], ["round-robin (--scheduler)"]]);
  });

  test("shows whether connections of a Service are reset or drained", () => {
    const life = { onEndpointRemoved: "reset", drainTimeoutMs: 90_000 } as const;
    const status = daemonStatus({ services: [service({ name: "shop/own", ...life })] });
    const { body } = statusPage(status, new URLSearchParams({ service: "shop/own" }));
    expect(body).toMatch(/badge">on removal: reset, drain timeout 1m30s</);
  });

  test("reloads every 30 s until the link to stop it is followed, which keeps the current page and filter", () => {
    expect(page({})).toContain('<meta http-equiv="refresh" content="30">');
    expect(page({}, "refresh=5")).toContain('<meta http-equiv="refresh" content="5">');
    expect(page({}, "q=cart")).toContain('<a href="/?q=cart&#38;refresh=0">stop refreshing</a>');
    const stopped = page({}, "q=cart&refresh=0");
    expect(stopped).not.toContain("http-equiv");
    expect(stopped).toContain('<a href="/?q=cart">refresh every 30 s</a>');
  });
});

test("SyncHistory counts syncs, failures and repairs, and keeps the last repair and problem", () => {
  const history = new SyncHistory();
  history.synced(syncReport());
  history.synced(syncReport({ kind: "full", reason: "periodic", endedAt: 1001 }));
  history.synced(syncReport({ kind: "full", reason: "drift", endedAt: 1002, drift: [MISSING_TABLE] }));
  history.synced(syncReport({ kind: "full", reason: "periodic", endedAt: 1003 }));
  history.verified(1004);
  history.failed({ error: new Error("nft hangs") });
  expect({ ...history }).toEqual({
    syncs: 4,
    failures: 1,
    repairs: 1,
    fullSync: { at: 1003, reason: "periodic", durationMs: 3, repaired: undefined },
    repair: { at: 1002, reason: "drift", durationMs: 2, repaired: "table ip nft-proxy was missing" },
    lastSyncedAt: 1003,
    verifiedAt: 1004,
    problem: "nft hangs",
    excludedFamilies: new Map(),
  });
});
