import { afterAll, beforeAll, expect, test } from "vitest";
import { DaemonLab } from "../support/daemon-lab.ts";
import { loadTown } from "../support/stub-api/town.ts";

let lab: DaemonLab;
beforeAll(async () => {
  lab = await DaemonLab.create();
  loadTown(lab.cluster);
  lab.start(["--service-counters=endpoints"]);
  await lab.converged({ settings: { serviceCounters: "endpoints" } });
});
afterAll(() => lab?.close());

/** The text of the status page, without its markup. */
async function statusText(path = "/"): Promise<string> {
  const { status, headers, body } = await lab.get(10249, path);
  expect(status).toBe(200);
  expect(headers.get("content-type")).toBe("text/html; charset=utf-8");
  expect(headers.get("content-security-policy")).toContain("default-src 'none'; style-src 'sha256-");
  return body.replaceAll(/<style>.*?<\/style>|<[^>]*>/gs, " ").replaceAll(/\s+/g, " ");
}

test("the status page shows the Services that the daemon serves", async () => {
  const text = await statusText();
  expect(text).toMatch(/Health healthy Last sync \d+ s ago/);
  expect(text).toMatch(/Pending nothing .*Verification \d+ s ago full sync \(reason: start\)/);
  expect(text).toMatch(/Syncs, last hour [1-9]\d* .*Out of sync, last hour [\d.]+ s/);
  expect(text).toMatch(
    /Memory [\d.]+ MB .*daemon: [\d.]+ MB .*Versions \S+ nftables v\S+ .* Linux \d+\.\S+ socat \d\S+ Node\.js v\d/,
  );
  expect(text).toMatch(/Elements of all Services [1-9]\d* 1000000 0 % /);
  expect(text).toContain("36 of 36 Services");
  expect(text).toMatch(/services following 3\d \d+ s \d+ s ago \d+ s ago/);
  expect(text).toMatch(
    /shop\/cart sticky 600 s http 80\/tcp IPv4 10\.96\.1\.2:80 cluster IP 4 endpoints 0 connections/,
  );
});

test("the status page counts connections and repairs, and its filter finds a Service by address", async () => {
  await lab.lab.probe([{ id: "redis", from: "pod3", to: "10.96.1.3", port: 6379, proto: "tcp", n: 7 }]);
  await expect
    .poll(() => statusText("/?q=10.96.1.3"), { timeout: 20_000, interval: 500 })
    .toMatch(/1 of 36 Services .*10\.96\.1\.3:6379 cluster IP 1 endpoint 7 connections/);
  await lab.nft("delete", "table", "ip", "nft-proxy");
  await expect
    .poll(() => statusText(), { timeout: 20_000, interval: 500 })
    .toMatch(/Drift repairs 1 last \d+ s ago/);
});

test("the status page reports an API server that is away, and still shows Services", async () => {
  await lab.stopApi();
  await expect
    .poll(() => statusText(), { timeout: 20_000, interval: 500 })
    .toMatch(/services \S+.*ECONNREFUSED/);
  expect(await statusText()).toContain("36 of 36 Services");
});
