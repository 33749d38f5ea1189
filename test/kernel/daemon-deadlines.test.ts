import { execaSync } from "execa";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { nftProgram } from "../../src/kernel/nft.ts";
import { readKernel } from "../../src/kernel/read-kernel.ts";
import { apiService, apiSlice } from "../support/api-objects.ts";
import { InProcessDaemon, type InProcessOptions } from "../support/in-process-daemon.ts";
import { nftTables } from "../support/nft-tables.ts";
import { textWithoutPlacement } from "../support/ruleset-text.ts";
import type { InjectedFault, Verb } from "../support/stub-api/faults.ts";
import { StubApi } from "../support/stub-api/stub-api.ts";
import { townList } from "../support/stub-api/town.ts";
import { cacheOfApi, rulesetOfCache } from "../support/town-ruleset.ts";

// An API server that does not answer, with the real deadlines and a clock that the test controls.

const nft = nftProgram({ path: "nft" });
let api: StubApi;
let daemon: InProcessDaemon | undefined;
const flush = () => void execaSync("nft", ["flush", "ruleset"]);
beforeAll(flush);
afterAll(flush);
beforeEach(async () => {
  flush();
  api = await StubApi.start();
  for (const resource of ["nodes", "servicecidrs"] as const)
    api.cluster.load(resource, townList("town", resource));
  for (const [index, name] of ["a", "b"].entries()) {
    api.cluster.put("services", apiService(name, { clusterIP: `10.96.7.${index}` }));
    api.cluster.put("endpointslices", apiSlice(name, ["10.244.1.11", "10.244.2.12"]));
  }
});
afterEach(async () => {
  await daemon?.stop();
  await api.close();
});

async function start(options: Partial<InProcessOptions> = {}): Promise<InProcessDaemon> {
  // Each daemon gets an nft of its own, because a stopped nft reads no more input.
  daemon = await InProcessDaemon.start({ api, nft: nftProgram({ path: "nft" }), ...options });
  return daemon;
}

async function kernelText(): Promise<string> {
  const kernel = await readKernel(nftTables(nft), ["ip", "ip6"]);
  return kernel.kind === "read" ? textWithoutPlacement(kernel.ruleset) : kernel.reason;
}

function wanted() {
  return rulesetOfCache(
    cacheOfApi((resource) => api.cluster.objects(resource)),
    { refusalLogSize: 0 },
  );
}

async function isRight(): Promise<boolean> {
  return (await kernelText()) === textWithoutPlacement(wanted());
}

/** Adds, removes and changes a Service. The chains in use stay the same. */
function change(): void {
  api.cluster.put("services", apiService("c", { clusterIP: "10.96.7.9" }));
  api.cluster.remove("services", apiService("a", { clusterIP: "10.96.7.0" }));
  api.cluster.put("endpointslices", apiSlice("b", ["10.244.1.13", "10.244.2.14"]));
}

describe("an API server that falls silent", () => {
  const rows: [name: string, verb: Verb, fault: InjectedFault][] = [
    ["a list that is never answered", "list", { kind: "hang" }],
    ["a list whose body stops", "list", { kind: "stall", body: '{"items":[' }],
    ["a watch that is never answered", "watch", { kind: "hang" }],
  ];

  test.each(rows)("has %s repeated after a minute", async (_name, verb, fault) => {
    api.addFault({ resource: "services", verb, fault });
    const running = await start();
    await running.until(() =>
      api.requests.some((request) => request.resource === "services" && request.verb === verb),
    );
    change();
    await running.pass(45);
    expect(await isRight()).toBe(false);
    const began = running.clock.now();
    await running.pass(20);
    await running.until(isRight);
    expect(running.clock.now() - began).toBeLessThan(30_000);
  });

  test("has a half-open watch ended after 75 seconds, and missed changes found", async () => {
    const running = await start();
    await running.until(isRight);
    await running.until(
      () => api.cluster.watches("services").length + api.cluster.watches("endpointslices").length === 2,
    );
    for (const resource of ["services", "endpointslices"] as const) api.cluster.watches(resource)[0]?.mute();
    change();
    await running.pass(70);
    expect(await isRight()).toBe(false);
    await running.pass(15);
    await running.until(isRight);
  });

  test("from the start leaves the kernel unchanged, and health reports the reason", async () => {
    api.addFault({ fault: { kind: "hang" }, times: Number.POSITIVE_INFINITY });
    const running = await start();
    await running.pass(300);
    expect(await kernelText()).toBe("");
    expect(running.daemon.health.snapshot()).toMatchObject({
      lastSynced: undefined,
      problem: expect.stringContaining("waiting for services"),
    });
  });
});

describe("a host", () => {
  test("without IPv6 gets only the IPv4 table", async () => {
    const running = await start({ families: ["ip"] });
    const { ip } = wanted();
    await running.until(
      async () => (await kernelText()) === textWithoutPlacement({ ...(ip === undefined ? {} : { ip }) }),
    );
    expect(execaSync("nft", ["list", "tables"]).stdout).toBe("table ip nft-proxy");
  });
});
