import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ConnectionCounts } from "../../src/inspect/connections/connection-counter.ts";
import { apiListText, apiService, apiSlice } from "../support/api-objects.ts";
import { bundle } from "../support/command.ts";
import { HeldConnection, serveEcho } from "../support/held-connection.ts";
import { createLab, type Lab } from "../support/lab/lab.ts";
import { schemaErrors } from "../support/output-schema.ts";
import type { StubObject } from "../support/stub-api/selectors.ts";

const ECHO = { port: 7000, nodePort: 32700, targetPort: 7000 };
const PODS = ["10.244.1.11", "10.244.1.12"];

let lab: Lab;
let directory: string;

/** Runs the built program on the node, with the given EndpointSlices. */
async function command(name: string, flags: readonly string[], slice: StubObject): Promise<string> {
  const path = join(directory, "objects.json");
  const service = apiService("echo", { clusterIP: "10.96.7.7", ports: [ECHO] });
  await writeFile(path, apiListText([service], [slice]));
  const { exitCode, stdout, stderr } = await lab.exec([
    process.execPath,
    bundle,
    name,
    ...flags,
    `--from=${path}`,
    "--hostname-override=node-1",
    "--cluster-cidr=10.244.0.0/16,fd00:244::/32",
    "--nodeport-addresses=192.0.2.0/24",
  ]);
  if (exitCode !== 0) throw new Error(stderr);
  return stdout;
}

async function report(flags: readonly string[], slice: StubObject): Promise<ConnectionCounts> {
  const found = JSON.parse(await command("connections", ["--output=json", ...flags], slice));
  expect(schemaErrors("connections", found)).toEqual([]);
  return found;
}

const bothPods = apiSlice("echo", PODS, [ECHO]);

beforeAll(async () => {
  lab = await createLab();
  directory = await mkdtemp(join(tmpdir(), "connections-"));
  for (const pod of ["pod1", "pod2"] as const) await serveEcho(lab, pod, 7000);
  await command("apply", [], apiSlice("echo", PODS.slice(0, 1), [ECHO]));
  await HeldConnection.open(lab, "pod3", "10.96.7.7", 7000);
  await HeldConnection.open(lab, "ext", "192.0.2.2", 32700);
  await command("apply", [], apiSlice("echo", PODS.slice(1), [ECHO]));
  await HeldConnection.open(lab, "pod4", "10.96.7.7", 7000);
});
afterAll(async () => {
  await lab?.close();
  await rm(directory, { recursive: true });
});

describe("connections", () => {
  test("counts the kernel's connections by Service and endpoint, for every kind of frontend", async () => {
    const { services, unmanaged } = await report([], bothPods);
    expect(unmanaged).toBe(0);
    expect(services).toMatchObject([
      {
        service: "shop/echo",
        connections: 3,
        endpoints: [
          {
            address: "10.244.1.11",
            port: 7000,
            condition: "ready",
            connections: 2,
            states: { established: 2 },
          },
          {
            address: "10.244.1.12",
            port: 7000,
            condition: "ready",
            connections: 1,
            states: { established: 1 },
          },
        ],
      },
    ]);
    // Each connection is used ten times a second.
    for (const { idleSeconds } of services[0]?.endpoints ?? []) expect(idleSeconds?.longest).toBeLessThan(60);
  });

  test("--draining names the clients of an endpoint that is no longer in any EndpointSlice", async () => {
    const { services } = await report(["--draining"], apiSlice("echo", PODS.slice(1), [ECHO]));
    const clients = ["10.244.1.13", "192.0.2.1"].map((address) => ({ address, connections: 1 }));
    expect(services.flatMap(({ endpoints }) => endpoints)).toMatchObject([
      { address: "10.244.1.11", condition: "vanished", connections: 2, clients },
    ]);
  });

  test("--client counts only the connections of one client", async () => {
    const { services } = await report(["--client=10.244.1.14"], bothPods);
    expect(services).toMatchObject([{ connections: 1, endpoints: [{ address: "10.244.1.12" }] }]);
  });

  test("prints a line for each endpoint as text", async () => {
    const text = await command("connections", ["--draining"], apiSlice("echo", PODS.slice(1), [ECHO]));
    expect(text).toMatch(
      /^shop\/echo port tcp-7000 \(7000\/tcp\), IPv4: 2 connections\n {2}10\.244\.1\.11:7000 {2}2 {2}vanished/,
    );
  });
});
