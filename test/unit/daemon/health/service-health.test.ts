import { createServer } from "node:net";
import { networkInterfaces } from "node:os";
import { afterEach, describe, expect, test } from "vitest";
import {
  healthCheckAddresses,
  type ServiceHealth,
  serviceHealthAnswer,
  serviceHealthServers,
} from "../../../../src/daemon/health/service-health.ts";
import { type ServiceName, serviceName } from "../../../../src/model/ids.ts";
import type { NodePortAddresses } from "../../../../src/model/node.ts";
import { testNodeContext } from "../../../support/build.ts";
import { ManualClock } from "../../../support/manual-clock.ts";
import { memoryLogger } from "../../../support/memory-logger.ts";

/** Some machines have no IPv6. */
const hasIPv6 = Object.values(networkInterfaces()).some((own) =>
  own?.some(({ address }) => address === "::1"),
);

const WEB = serviceName("ns", "web");
const DNS = serviceName("ns", "dns");
const open: ReturnType<typeof serviceHealthServers>[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((servers) => servers.close()));
});

function makeServers() {
  const clock = new ManualClock();
  const failures: [ServiceName, number][] = [];
  const state: { healthy: boolean | "IPv4 alone" } = { healthy: true };
  const servers = serviceHealthServers({
    isProxyHealthy: (family) => (state.healthy === "IPv4 alone" ? family === "ip" : state.healthy),
    clock,
    logger: memoryLogger(),
    onFailure: (service, port) => failures.push([service, port]),
  });
  open.push(servers);
  return { servers, clock, failures, state };
}

/** Returns an unused port outside the kernel's range of ephemeral ports. */
async function freePort(from: number): Promise<number> {
  for (let n = 0; n < 1000; n++) {
    // Other test runs look for a port at the same time.
    const port = from + ((process.pid + n) % 1000);
    const free = await new Promise<boolean>((resolve) => {
      const probe = createServer().once("error", () => resolve(false));
      probe.listen(port, "127.0.0.1", () => probe.close(() => resolve(true)));
    });
    if (free) return port;
  }
  throw new Error("no free port");
}

const LOOPBACK = { family: "ip", address: "127.0.0.1" } as const;

const wants = (...rows: [ServiceName, ServiceHealth][]) => new Map(rows);

async function ask(host: string, port: number): Promise<Response | undefined> {
  return fetch(`http://${host}:${port}/any`, { headers: { connection: "close" } }).catch(() => undefined);
}

describe("serviceHealthAnswer", () => {
  test("has the body and weight header of kube-proxy's answer", () => {
    const answer = serviceHealthAnswer(WEB, 2, true);
    expect(answer).toMatchObject({
      status: 200,
      contentType: "application/json",
      headers: { "X-Load-Balancing-Endpoint-Weight": "2" },
    });
    expect(answer.body).toBe(
      '{\n\t"service": {\n\t\t"namespace": "ns",\n\t\t"name": "web"\n\t},\n\t"localEndpoints": 2,\n\t"serviceProxyHealthy": true\n}',
    );
  });

  test.each([
    [0, true],
    [0, false],
    [3, false],
  ])("is 503 for %i endpoints if the proxy is healthy: %s", (count, healthy) => {
    expect(serviceHealthAnswer(WEB, count, healthy).status).toBe(503);
  });
});

test("health checks are served at the addresses of NodePorts, family by family", () => {
  const where = (ip: NodePortAddresses, ip6: NodePortAddresses) =>
    healthCheckAddresses(
      testNodeContext().map((context) => ({ ...context, nodePorts: context.family === "ip" ? ip : ip6 })),
    ).map(({ family, address }) => `${family} ${address}`);
  const none = { kind: "addresses", addresses: [] } as const;
  const all = { kind: "all" } as const;
  expect(
    where({ kind: "addresses", addresses: ["192.0.2.2"] }, { kind: "addresses", addresses: ["fd00::2"] }),
  ).toEqual(["ip 192.0.2.2", "ip6 fd00::2"]);
  expect(where(all, none)).toEqual(["ip 0.0.0.0"]);
  expect(where(all, all)).toEqual(["ip 0.0.0.0", "ip6 ::"]);
  expect(where(none, none)).toEqual([]);
});

describe("serviceHealthServers", () => {
  test("answers at each address, and follows changes of counts, health and ports", async () => {
    const { servers, state, failures } = makeServers();
    const port = await freePort(21000);
    const other = await freePort(port + 1);
    const addresses = ["127.0.0.1", "127.0.0.2"];
    const both = addresses.map((address) => ({ family: "ip", address }) as const);
    await servers.sync(wants([WEB, { port, localEndpoints: { ip: 1 } }]), both);
    for (const address of addresses) expect((await ask(address, port))?.status).toBe(200);
    state.healthy = false;
    expect((await ask("127.0.0.1", port))?.status).toBe(503);
    state.healthy = true;
    await servers.sync(wants([WEB, { port, localEndpoints: { ip: 0 } }]), both);
    const none = await ask("127.0.0.2", port);
    expect([none?.status, none?.headers.get("x-load-balancing-endpoint-weight")]).toEqual([503, "0"]);
    await servers.sync(wants([WEB, { port: other, localEndpoints: { ip: 4 } }]), [LOOPBACK]);
    expect(await ask("127.0.0.1", port)).toBeUndefined();
    expect(await ask("127.0.0.2", other)).toBeUndefined();
    expect((await ask("127.0.0.1", other))?.headers.get("x-load-balancing-endpoint-weight")).toBe("4");
    expect(failures).toEqual([]);
  });

  test("listens in one family only if only that family serves all addresses", async () => {
    const { servers } = makeServers();
    const port = await freePort(24000);
    await servers.sync(wants([WEB, { port, localEndpoints: { ip: 1 } }]), [
      { family: "ip", address: "0.0.0.0" },
    ]);
    expect((await ask("127.0.0.1", port))?.status).toBe(200);
    expect(await ask("[::1]", port)).toBeUndefined();
  });

  test.skipIf(!hasIPv6)("answers in both families on the same port, each with its own count", async () => {
    const { servers, failures, state } = makeServers();
    const port = await freePort(25000);
    const everywhere = [
      { family: "ip", address: "0.0.0.0" },
      { family: "ip6", address: "::" },
    ] as const;
    const statuses = async () => [(await ask("127.0.0.1", port))?.status, (await ask("[::1]", port))?.status];
    await servers.sync(wants([WEB, { port, localEndpoints: { ip: 1, ip6: 0 } }]), everywhere);
    expect(failures).toEqual([]);
    expect(await statuses()).toEqual([200, 503]);
    await servers.sync(wants([WEB, { port, localEndpoints: { ip: 1, ip6: 1 } }]), everywhere);
    expect(await statuses()).toEqual([200, 200]);
    state.healthy = "IPv4 alone";
    expect(await statuses(), "the kernel refuses the rules of IPv6").toEqual([200, 503]);
  });

  test("moves a port from one Service to another in one sync", async () => {
    const { servers, failures } = makeServers();
    const port = await freePort(22000);
    await servers.sync(wants([WEB, { port, localEndpoints: { ip: 1 } }]), [LOOPBACK]);
    await servers.sync(wants([DNS, { port, localEndpoints: { ip: 1 } }]), [LOOPBACK]);
    expect(failures).toEqual([]);
    expect(await (await ask("127.0.0.1", port))?.json()).toMatchObject({ service: { name: "dns" } });
  });

  test("reports a port in use once, retries it, and serves the others", async () => {
    const { servers, failures, clock } = makeServers();
    const port = await freePort(23000);
    const other = await freePort(port + 1);
    const squatter = createServer();
    await new Promise<void>((resolve) => squatter.listen(port, "127.0.0.1", resolve));
    const wanted = wants(
      [WEB, { port, localEndpoints: { ip: 1 } }],
      [DNS, { port: other, localEndpoints: { ip: 1 } }],
    );
    await servers.sync(wanted, [LOOPBACK]);
    await servers.sync(wanted, [LOOPBACK]);
    expect(failures).toEqual([[WEB, port]]);
    expect((await ask("127.0.0.1", other))?.status).toBe(200);
    await new Promise((resolve) => squatter.close(resolve));
    clock.advance(5000);
    await expect.poll(async () => (await ask("127.0.0.1", port))?.status).toBe(200);
  });
});
