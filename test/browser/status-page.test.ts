import { readFileSync, writeFileSync } from "node:fs";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { FeatureCard } from "../../src/features/seam/daemon-part.ts";
import { INITIAL_STATE } from "../../src/kube/source.ts";
import { servicePortsOf } from "../../src/model/service-port.ts";
import {
  DRAINING,
  endpoint,
  localEndpoint,
  type Objects,
  port,
  STARTING,
  service,
  slice,
  slicePort,
} from "../support/build.ts";
import { findChromium } from "../support/chromium.ts";
import { daemonStatus, NOW } from "../support/status.ts";
import { StatusBrowser } from "../support/status-browser.ts";

/** An expression for the page. */
const CONTRASTS = readFileSync(new URL("contrasts.js", import.meta.url), "utf8");

const PICTURE = new URL("../../docs/status-page.png", import.meta.url);

const SHOP: Objects = {
  services: [
    service({
      name: "shop/cart",
      clusterIPs: ["10.96.1.2", "fd00:10:96::102"],
      ports: [port(80, { name: "http", nodePort: 30080 })],
      externalIPs: ["192.0.2.9"],
      loadBalancerIPs: ["203.0.113.7"],
      sourceRanges: ["198.51.100.0/24"],
      affinitySeconds: 600,
      external: "Local",
    }),
    service({ name: "shop/empty", clusterIPs: ["10.96.1.3"], externalIPs: ["192.0.2.9"], createdAt: 2000 }),
    service({ name: "shop/refused", clusterIPs: ["10.96.1.4"] }),
  ],
  slices: [
    slice({
      service: "shop/cart",
      ports: [slicePort(8080, { name: "http" })],
      endpoints: [
        localEndpoint("10.244.1.1", { zone: "zone-a", pod: "shop/cart-1" }),
        endpoint("10.244.2.1", {
          nodeName: "node-2",
          zone: '<img src=x onerror=alert("zone")>',
          pod: "shop/cart-2",
        }),
        endpoint("10.244.2.2", { nodeName: "node-2", ...STARTING }),
        endpoint("10.244.2.3", { nodeName: "node-2", ...DRAINING }),
      ],
    }),
    slice({ service: "shop/refused", endpoints: ["10.244.1.9"] }),
  ],
};

const [cart] = servicePortsOf(service({ name: "shop/cart", clusterIPs: ["10.96.1.2"] }));
const [REFUSED] = servicePortsOf(service({ name: "shop/refused", clusterIPs: ["10.96.1.4"] }));

/** The card of refused connections. */
function refusals(value: string, latest: string): FeatureCard {
  const lines = ["to 1 destination, of 2 clients"];
  return { title: "Refusals", tone: "idle", value, lines, list: [latest] };
}

/** A daemon with something to say in every card. */
function troubled() {
  const failing = {
    ...INITIAL_STATE,
    failure: '<script>alert("source")</script>',
    errors: { ...INITIAL_STATE.errors, server: 3 },
  };
  const fullSync = { at: NOW - 90_000, reason: "periodic", durationMs: 420, repaired: undefined } as const;
  return daemonStatus(SHOP, {
    quarantined: new Map(REFUSED === undefined ? [] : [[REFUSED.key, "the kernel refuses its rules"]]),
    sources: { ...daemonStatus(SHOP).sources, endpointslices: failing },
    history: {
      syncs: 40,
      failures: 2,
      repairs: 1,
      fullSync,
      repair: {
        ...fullSync,
        reason: "drift",
        at: NOW - 7_200_000,
        repaired: "table ip nft-proxy was missing",
      },
      lastSyncedAt: NOW - 3000,
      verifiedAt: NOW - 90_000,
      problem: undefined,
      excludedFamilies: new Map(),
    },
    cards: [refusals("9 packets", "10.244.2.9 to 10.96.1.9:80/tcp")],
    costlyTables: [
      { table: "ip kube-proxy", sets: 11_000, ms: 22 },
      { table: "inet firewall", sets: 5500, ms: 11 },
    ],
    memory: {
      own: 121e6,
      container: { workingSet: 165e6, limit: 1342e6, peak: 415e6 },
      programs: [{ program: "socat", resident: 4.6e6, peak: 4.6e6 }],
    },
    pending: { since: NOW - 12_000, services: cart === undefined ? [] : [cart.service.name] },
    timeline: Array.from({ length: 60 }, (_, minute) =>
      minute % 4 === 0
        ? { syncs: 0, outOfSyncMs: 0 }
        : { syncs: 1 + (minute % 3) + (minute === 31 ? 1 : 0), outOfSyncMs: minute === 31 ? 41_000 : 250 },
    ),
    connections: {
      toFrontend: (_, { address }) => (address === "10.96.1.2" ? 17 : undefined),
      toEndpoint: (_, address) => (address === "10.244.1.1" ? 12 : undefined),
    },
  });
}

/**
 * The page that docs/status-page.png shows: a small shop, a rollout half done, one Service without an
 * endpoint.
 */
function demo() {
  const http = [port(80, { name: "http" })];
  const pods = (service: string, ...addresses: string[]) =>
    slice({
      service,
      ports: [slicePort(8080, { name: "http" })],
      endpoints: addresses.map((address, i) =>
        endpoint(address, {
          nodeName: `node-${1 + (i % 3)}`,
          zone: `zone-${"abc"[i % 3]}`,
          pod: `${service}-${i + 1}`,
        }),
      ),
    });
  const objects: Objects = {
    services: [
      service({
        name: "kube-system/kube-dns",
        clusterIPs: ["10.96.0.10"],
        ports: [port(53, { name: "dns", protocol: "udp" })],
      }),
      service({ name: "shop/cart", clusterIPs: ["10.96.12.7"], ports: http, affinitySeconds: 600 }),
      service({
        name: "shop/frontend",
        clusterIPs: ["10.96.40.2"],
        ports: [port(80, { name: "http", nodePort: 30080 })],
        loadBalancerIPs: ["203.0.113.7"],
        external: "Local",
      }),
      service({ name: "shop/payments", clusterIPs: ["10.96.77.31"], ports: http }),
      service({ name: "shop/search", clusterIPs: ["10.96.8.19"], ports: http }),
    ],
    slices: [
      slice({
        service: "kube-system/kube-dns",
        ports: [slicePort(53, { name: "dns", protocol: "udp" })],
        endpoints: [
          endpoint("10.244.1.2", { nodeName: "node-1" }),
          endpoint("10.244.2.2", { nodeName: "node-2" }),
        ],
      }),
      pods("shop/cart", "10.244.1.31", "10.244.2.44", "10.244.3.17"),
      pods("shop/frontend", "10.244.1.8", "10.244.2.9"),
      slice({
        service: "shop/payments",
        ports: [slicePort(8080, { name: "http" })],
        endpoints: [endpoint("10.244.2.60", { nodeName: "node-2", ...STARTING })],
      }),
      pods("shop/search", "10.244.3.50"),
    ],
  };
  const { history, sources } = daemonStatus(objects);
  return daemonStatus(objects, {
    sources: {
      ...sources,
      nodes: { ...sources.nodes, objects: 3 },
      servicecidrs: { ...sources.servicecidrs, objects: 1 },
    },
    history: {
      ...history,
      syncs: 318,
      fullSync: { at: NOW - 1_260_000, reason: "periodic", durationMs: 310, repaired: undefined },
    },
    memory: {
      own: 61e6,
      container: { workingSet: 78e6, limit: 1342e6, peak: 94e6 },
      programs: [
        { program: "socat", resident: 4.6e6, peak: 4.6e6 },
        { program: "nft", resident: 0, peak: 12e6 },
      ],
    },
    affinityEntries: { ip: 212, ip6: 0 },
    cards: [refusals("12 packets", "10.244.1.31 to 10.96.77.31:80/tcp")],
    timeline: Array.from({ length: 60 }, (_, minute) => {
      const syncs = minute % 5 === 0 ? 0 : 2 + ((minute * 7) % 9);
      return { syncs, outOfSyncMs: syncs * 9 };
    }),
  });
}

function many(): Objects {
  const address = (first: string, i: number) => `${first}.${i >> 8}.${i & 255}`;
  const numbers = Array.from({ length: 10_000 }, (_, i) => i);
  return {
    services: numbers.map((i) => service({ name: `load/service-${i}`, clusterIPs: [address("10.96", i)] })),
    slices: numbers.map((i) =>
      slice({
        service: `load/service-${i}`,
        endpoints: Array.from({ length: 10 }, (_, k) =>
          endpoint(address(`10.${100 + k}`, i), { nodeName: `node-${k}` }),
        ),
      }),
    ),
  };
}

describe.skipIf(findChromium() === undefined)("the status page in Chromium", () => {
  let browser: StatusBrowser;
  beforeAll(async () => {
    browser = await StatusBrowser.start();
  });
  afterEach(() => browser.closePages());
  afterAll(() => browser?.stop());

  test("shows Services, their frontends, their endpoints with reasons, and counts", async () => {
    const { page, complaints } = await browser.open(troubled());
    const cart = page.locator("article", { hasText: "shop/cart" });
    expect(await cart.locator(".badge").allTextContents()).toContain("sticky 600 s");
    const [ip] = await cart.locator(".port").all();
    expect(await ip?.locator(".frontends li").allInnerTexts()).toEqual([
      expect.stringMatching(/^10\.96\.1\.2:80 cluster IP 2 endpoints 17 connections/),
      expect.stringMatching(/^192\.0\.2\.9:80 external IP 1 endpoint on this node/),
      expect.stringMatching(/^203\.0\.113\.7:80 load-balancer IP, source ranges 1 endpoint on this node/),
      expect.stringMatching(/^:30080 NodePort 1 endpoint on this node/),
    ]);
    await ip?.locator("summary").click();
    const rows = await ip?.locator("tbody tr").allInnerTexts();
    expect(rows?.map((row) => row.split(/\s*\t\s*/).slice(0, 2))).toEqual([
      ["10.244.1.1:8080", "used"],
      ["10.244.2.1:8080", "used, but not by policy Local: not on this node"],
      ["10.244.2.2:8080", "not ready"],
      ["10.244.2.3:8080", "terminating"],
    ]);
    expect(rows?.[0]).toMatch(/\b12$/);
    expect(complaints).toEqual([]);
  });

  test("shows health, syncs, pending Services, verification, repairs and charts in cards", async () => {
    const { page } = await browser.open(troubled());
    const cards = await page.locator(".card").allInnerTexts();
    const text = cards.map((card) => card.replaceAll(/\s*\n\s*/g, " | "));
    expect(text).toEqual([
      "Health | healthy",
      "Last sync | 3 s ago | 2026-01-31 11:59:57 UTC | 40 syncs, 2 failed since the start",
      "Pending | 1 Service | for 12 s | shop/cart",
      expect.stringMatching(/^Verification \| 90 s ago \| full sync \(reason: periodic\), took 0\.42 s/),
      "Drift repairs | 1 | last 2 h ago | table ip nft-proxy was missing",
      "Quarantine | 1 | ip shop/refused/tcp: the kernel refuses its rules",
      expect.stringContaining("192.0.2.9:80/tcp: shop/cart:http/tcp has it"),
      "Refusals | 9 packets | to 1 destination, of 2 clients | 10.244.2.9 to 10.96.1.9:80/tcp",
      "Syncs, last hour | 91 | at most 3 in a minute",
      "Out of sync, last hour | 52 s | at most 41 s in a minute",
      "Sets of other software | 33 ms | slow down changes of both IP families, and every other call of nft | ip kube-proxy: 11000 sets, 22 ms | inet firewall: 5500 sets, 11 ms | if kube-proxy has been replaced: stop it on this node, then nft-proxy cleanup --kube-proxy",
      "Memory | 165 MB | of 1342 MB, the limit of the container | at most 415 MB, with page cache | daemon: 121 MB | socat: 4.6 MB, one process at most 4.6 MB",
      "Versions | 1.2.3 | nftables v1.1.3 (Commodore Bullmoose #4) | Linux 6.12.48 | socat 1.8.0.3 | Node.js v20.19.2",
    ]);
    expect(await page.locator("svg.spark rect").count()).toBe(2 * 45);
    const heights = await page
      .locator("svg.spark")
      .evaluateAll((charts) => charts.map((chart) => chart.clientHeight));
    expect(heights).toEqual([35, 35]);
    expect(await page.locator(".sources tbody tr").nth(1).textContent()).toMatch(
      /<script>alert\("source"\)<\/script>.*server 3/s,
    );
    expect(await page.locator("nav a").allInnerTexts()).toEqual([
      "stop refreshing",
      "metrics",
      "configz",
      "flagz",
      "statusz",
    ]);
  });

  test("looks like the picture in the README, which PICTURE=1 replaces", async () => {
    const { page, complaints } = await browser.open(demo(), "/", { viewport: { width: 1100, height: 1700 } });
    const picture = await page.screenshot();
    if (process.env.PICTURE) writeFileSync(PICTURE, picture);
    const stored = readFileSync(PICTURE);
    // Width and height, in the header of a PNG. Fonts differ from machine to machine, so that the rest may.
    expect(stored.subarray(0, 24)).toEqual(picture.subarray(0, 24));
    expect(await page.locator("article h3").allTextContents()).toContain("shop/payments");
    expect(complaints).toEqual([]);
  });

  test("escapes the API's text, and loads nothing", async () => {
    const { page, complaints, requests, origin } = await browser.open(
      troubled(),
      "/?q=%22%3E%3Cimg+src%3Dx%3E",
    );
    expect(await page.locator("input[type=search]").inputValue()).toBe('"><img src=x>');
    await page.goto(`${origin}/?service=shop%2Fcart`);
    expect(await page.getByText('<img src=x onerror=alert("zone")>').count()).toBe(1);
    expect(await page.locator("img, script").count()).toBe(0);
    expect(complaints).toEqual([]);
    expect(requests.filter((url) => !url.startsWith(origin) && url !== "data:,")).toEqual([]);
  });

  test("is loaded again by itself, without a script, until its link is followed", async () => {
    const { page, origin, requests } = await browser.open(troubled(), "/?refresh=5", {
      javaScriptEnabled: false,
    });
    const loads = () => requests.filter((url) => url === `${origin}/?refresh=5`).length;
    await expect.poll(loads, { timeout: 60_000 }).toBeGreaterThan(1);
    await page.getByRole("link", { name: "stop refreshing" }).click();
    expect(await page.locator("meta[http-equiv=refresh]").count()).toBe(0);
    expect(page.url()).toBe(`${origin}/?refresh=0`);
  });

  test("filters, pages and opens a Service without a script", async () => {
    const { page, origin } = await browser.open(daemonStatus(many()), "/", { javaScriptEnabled: false });
    await page.getByText("10000 of 10000 Services, page 1 of 200").first().waitFor();
    await page.locator("a[rel=next]").first().click();
    await page.getByText("page 2 of 200").first().waitFor();
    await page.locator("input[type=search]").fill("service-777");
    await page.getByRole("button", { name: "Show" }).click();
    await page.getByText("11 of 10000 Services").waitFor();
    await page.getByRole("link", { name: "load/service-7770", exact: true }).click();
    expect(page.url()).toContain("service=load%2Fservice-7770");
    expect(await page.locator("tbody tr").count()).toBe(10);
    await page.goto(`${origin}/?q=10.96.0.5`);
    expect(await page.locator("article h3").first().textContent()).toBe("load/service-5");
  });

  test("shows only Services with problems when asked to, or that none matches", async () => {
    const { page, origin } = await browser.open(troubled());
    await page.getByLabel(/with problems/).check();
    await page.getByRole("button", { name: "Show" }).click();
    expect(await page.locator("article h3").allInnerTexts()).toEqual([
      expect.stringContaining("shop/cart"),
      "shop/empty",
      "shop/refused",
    ]);
    await page.goto(`${origin}/?q=nothing`);
    expect(await page.locator("main").textContent()).toContain("No matching Services.");
  });

  test("stays small with 10,000 Services", async () => {
    const { page, origin } = await browser.open(daemonStatus(many()));
    const size = (await (await page.request.get(origin)).body()).length;
    expect(size).toBeLessThan(250_000);
    expect(await page.locator("article").count()).toBe(50);
    expect(await page.evaluate("document.querySelectorAll('*').length")).toBeLessThan(8000);
  });

  test.each(["light", "dark"] as const)("can be read in %s colours", async (colorScheme) => {
    const { page } = await browser.open(troubled(), "/", { colorScheme });
    const contrasts = await page.evaluate<number[]>(CONTRASTS);
    expect(contrasts.length).toBeGreaterThan(20);
    expect(Math.min(...contrasts)).toBeGreaterThanOrEqual(4.5);
    const back = await page.evaluate("getComputedStyle(document.body).backgroundColor");
    expect(back).toBe(colorScheme === "light" ? "rgb(245, 246, 248)" : "rgb(20, 23, 28)");
  });

  test.each([360, 390, 500])("fits %s px without scrolling sideways, and no table is cut", async (width) => {
    const { page } = await browser.open(troubled(), "/", { viewport: { width, height: 780 } });
    for (const summary of await page.locator("summary").all()) await summary.click();
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(width);
    const widths = await page
      .locator(".table, .table td")
      .evaluateAll((all) => all.map((one) => [one.scrollWidth, one.clientWidth] as const));
    expect(widths.filter(([needed, given]) => needed > given)).toEqual([]);
  });
});
