import { describe, expect, test } from "vitest";
import { FAMILIES } from "../../../../src/base/family.ts";
import { judgeHealth } from "../../../../src/daemon/health/health.ts";
import { type DaemonStatus, pendingServices } from "../../../../src/daemon/status/daemon-status.ts";
import { sparklineHtml } from "../../../../src/daemon/status/overview-html.ts";
import { statusPage } from "../../../../src/daemon/status/status-page.ts";
import { Renderer } from "../../../../src/ruleset/renderer.ts";
import { cacheOf, service, testNodeContext } from "../../../support/build.ts";
import { daemonStatus, NOW } from "../../../support/status.ts";

/** The page's text, without markup. */
function text(options: Partial<DaemonStatus>, query = ""): string {
  const { body } = statusPage(daemonStatus({ services: [service()] }, options), new URLSearchParams(query));
  return body.replaceAll(/<style>.*?<\/style>|<[^>]*>/gs, " ").replaceAll(/\s+/g, " ");
}

describe("the card Health", () => {
  test("is not healthy while syncs fail, and shows the problem", () => {
    const { history } = daemonStatus({});
    expect(text({})).toContain("Health healthy Last sync");
    const failing = text({ history: { ...history, problem: "nft refused the transaction" } });
    expect(failing).toContain("Health syncs fail Last sync");
  });

  test("is followed by the problems that have no card of their own, each with its remedy", () => {
    const problem = { level: "warning", found: "Node node-1 lacks zone", action: "ask the kubelet" } as const;
    const problems = [
      { kind: "node", ...problem },
      { kind: "conflict", ...problem },
    ] as const;
    expect(text({ problems })).toContain(
      "Health healthy Problems 1 Node node-1 lacks zone ask the kubelet Last sync",
    );
  });

  test("is not healthy while the kernel refuses a family, and names the family", () => {
    const current = { lastSynced: NOW, pendingSince: undefined, problem: "" };
    const excluded = { ip6: "Operation not supported" };
    const of = { families: FAMILIES, nodeName: "node-1", node: daemonStatus({}).cache.node };
    const health = judgeHealth({ ...current, excluded, ...of }, NOW, 60_000);
    expect(text({ health })).toContain(
      "Health without IPv6 IPv6 is not served: Operation not supported Last sync",
    );
    const { body } = statusPage(daemonStatus({}, { health }), new URLSearchParams());
    expect(body).toContain('<div class="card bad"><h2>Health</h2>');
  });
});

describe("the card Pending", () => {
  test("is empty while the kernel is up to date", () => {
    expect(text({})).toContain("Pending nothing the kernel has every change");
  });

  test("shows a waiting change with its Service and age, and the list shows the Service as pending", () => {
    const pending = { since: NOW - 12_000, services: ["default/web"] } as unknown as DaemonStatus["pending"];
    expect(text({ pending })).toContain("Pending 1 Service for 12 s default/web");
    expect(text({ pending }, "show=problems")).toContain("default/web pending: not in the kernel yet");
  });

  test("shows no name for a change of something other than a Service", () => {
    expect(text({ pending: { since: NOW - 1000, services: [] } })).toContain("Pending a change for 1 s");
  });
});

test("the card Pending waits for the first sync, whatever has been listed", () => {
  const { history } = daemonStatus({});
  const pending = { since: NOW - 90_000, services: ["default/web"] } as unknown as DaemonStatus["pending"];
  const waiting = text({ pending, history: { ...history, lastSyncedAt: undefined } });
  expect(waiting).toContain("Pending the first sync for 90 s Verification");
});

describe("pending Services", () => {
  test("are those that are not rendered yet or not committed yet", () => {
    const cache = cacheOf({ services: [service({ name: "shop/cart", clusterIPs: ["10.96.0.1"] })] });
    const renderer = new Renderer(cache, testNodeContext());
    expect(pendingServices(cache, renderer.state)).toEqual(["shop/cart"]);
    renderer.update(cache.takeDirty());
    expect(pendingServices(cache, renderer.state)).toEqual(["shop/cart"]);
    renderer.state.markCommitted();
    expect(pendingServices(cache, renderer.state)).toEqual([]);
  });
});

describe("the card Verification", () => {
  test("shows the time of the last full comparison, and the last full sync with its reason", () => {
    const fullSync = { at: NOW - 90_000, reason: "periodic", durationMs: 420, repaired: undefined } as const;
    const { history } = daemonStatus({});
    expect(text({ history: { ...history, fullSync, verifiedAt: NOW - 20_000 } })).toContain(
      "Verification 20 s ago full sync (reason: periodic), took 0.42 s 2026-01-31 11:58:30 UTC",
    );
  });
});

describe("the charts of the last hour", () => {
  const timeline = [...Array(58).fill({ syncs: 0, outOfSyncMs: 0 }), { syncs: 3, outOfSyncMs: 45_000 }];

  test("show totals and the highest minute in words", () => {
    const shown = text({ timeline: [...timeline, { syncs: 1, outOfSyncMs: 250 }] });
    expect(shown).toContain("Syncs, last hour 4 at most 3 in a minute");
    expect(shown).toContain("Out of sync, last hour 45.3 s at most 45 s in a minute");
  });

  test("have a bar for each value except zero, scaled to the highest, and a description", () => {
    expect(sparklineHtml([0, 2, 4, 0.001], 'a "label"').text).toBe(
      '<svg class="spark" viewBox="0 0 4 24" preserveAspectRatio="none" role="img" aria-label="a &#34;label&#34;">' +
        '<rect x="1" y="12" width="0.8" height="12"/><rect x="2" y="0" width="0.8" height="24"/>' +
        '<rect x="3" y="23" width="0.8" height="1"/></svg>',
    );
    expect(sparklineHtml([0, 0], "quiet").text).not.toContain("rect");
  });
});

describe("the card Memory", () => {
  const programs = [
    { program: "nft", resident: 0, peak: 137_000_000 },
    { program: "socat", resident: 4_600_000, peak: 4_600_000 },
  ];

  test("shows the container's memory with its limit, and each program's", () => {
    const container = { workingSet: 165_400_000, limit: 1_342_177_280, peak: 415_000_000 };
    expect(text({ memory: { own: 121_000_000, container, programs } })).toContain(
      "Memory 165 MB of 1342 MB, the limit of the container at most 415 MB, with page cache daemon: 121 MB" +
        " nft: 0 MB, one process at most 137 MB socat: 4.6 MB, one process at most 4.6 MB",
    );
  });

  test("is marked from half of the limit on", () => {
    const marked = (workingSet: number) => {
      const container = { workingSet, limit: 1000e6, peak: undefined };
      const status = daemonStatus({}, { memory: { own: 0, container, programs } });
      return statusPage(status, new URLSearchParams()).body.includes('card idle wide"><h2>Memory');
    };
    expect([499e6, 500e6].map(marked)).toEqual([false, true]);
  });

  test("shows the sum of all programs outside a container", () => {
    expect(text({ memory: { own: 120_000_000, container: undefined, programs } })).toContain(
      "Memory 125 MB daemon: 120 MB nft:",
    );
  });
});

describe("the table Sources", () => {
  test("shows how long a resource has been followed, its last event, and why it is not followed", () => {
    const { sources } = daemonStatus({});
    const nodes = { ...sources.nodes, followedSince: 0, failure: "HTTP status 401" };
    expect(text({ sources: { ...sources, nodes } })).toContain(
      "endpointslices following 0 59 min 2 s ago 60 min ago 0 0 nodes HTTP status 401 0 - 2 s ago 60 min ago 0 0 servicecidrs",
    );
  });
});

describe("the table Limits", () => {
  test("shows elements with their budgets, and how full each map is that packets fill", () => {
    expect(
      text({
        affinityEntries: { ip: 922 },
        fills: [{ what: "Recorded refusals, IPv4", used: 65_536, limit: 65_536 }],
      }),
    ).toContain(
      "Limits What Used Limit Full Elements of all Services 2 1000000 0 %" +
        " Elements of namespace default, the largest 2 500000 0 %" +
        " Clients with session affinity, IPv4 922 1024 90 % Clients with session affinity, IPv6 not read yet 1024" +
        " Recorded refusals, IPv4 65536 65536 100 %" +
        " Connections that the kernel tracks 812 262144 0 %",
    );
  });

  test("marks rows that are nearly full or beyond their limit", () => {
    const tones = (options: Partial<DaemonStatus>) =>
      [
        ...statusPage(daemonStatus({}, options), new URLSearchParams()).body.matchAll(
          /<span class="(\w+)">(\d+ %)/g,
        ),
      ].map(([, tone, full]) => `${tone} ${full}`);
    expect(tones({ conntrack: { entries: 236_000, capacity: 262_144 } })).toContain("idle 90 %");
    expect(tones({ conntrack: { entries: 300_000, capacity: 262_144 } })).toContain("bad 114 %");
  });

  test("omits maps that do not exist, and connections if the kernel tracks none", () => {
    const shown = text({ conntrack: { entries: undefined, capacity: undefined } });
    expect(shown).not.toContain("Connections that the kernel tracks");
    expect(text({ dryRun: true })).not.toContain("Clients with session affinity");
  });
});
