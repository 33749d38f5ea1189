import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { apiService, apiSlice } from "../support/api-objects.ts";
import { DaemonLab } from "../support/daemon-lab.ts";
import type { RunningDaemon } from "../support/running-daemon.ts";
import { townList } from "../support/stub-api/town.ts";

// The built daemon with `--nodeport-addresses primary,localhost`: a registry behind NodePorts, and others.

const LOCAL = "10.244.1.11";
const REMOTE = "10.244.2.11";
const NODE = "192.0.2.2";
const webPort = (nodePort: number, targetPort = 8080) => ({ port: 80, nodePort, targetPort });

const REGISTRY = fileURLToPath(new URL("../support/registry.mjs", import.meta.url));
const REGISTRY_PORT = 5000;

let lab: DaemonLab;
let daemon: RunningDaemon;
beforeAll(async () => {
  lab = await DaemonLab.create();
  for (const resource of ["nodes", "servicecidrs"] as const)
    lab.cluster.load(resource, townList("town", resource));
  put("web", 30_090, [LOCAL, REMOTE]);
  put("sticky", 30_091, [LOCAL, REMOTE], { sessionAffinity: "ClientIP" });
  put("fenced", 30_092, [LOCAL, REMOTE], { externalTrafficPolicy: "Local" });
  put("elsewhere", 30_093, [REMOTE], { externalTrafficPolicy: "Local" });
  put("taken", 30_094, [LOCAL]);
  put("six", 30_095, ["fd00:244:1::11", "fd00:244:2::11"]);
  put("registry", 30_096, [LOCAL], {}, REGISTRY_PORT);
  put("registry-six", 30_097, ["fd00:244:1::11"], {}, REGISTRY_PORT);
  listenOn(30_094);
  daemon = lab.start(["--nodeport-addresses=localhost", "--iptables-min-sync-period=10ms", "-v=4"]);
  await daemon.saying("server listening", 8);
});
afterAll(() => lab?.close());

let count = 0;
function put(
  name: string,
  nodePort: number,
  endpoints: readonly string[],
  spec: Record<string, unknown> = {},
  targetPort?: number,
): void {
  count++;
  const clusterIP = endpoints[0]?.includes(":") ? `fd00:10:96::9:${count}` : `10.96.9.${count}`;
  lab.cluster.put("services", apiService(name, { clusterIP, ports: [webPort(nodePort, targetPort)], spec }));
  lab.cluster.put("endpointslices", apiSlice(name, endpoints, [webPort(nodePort, targetPort)]));
}

/** Starts another process on the node that listens on loopback. {@link stopListening} ends it. */
let other: ReturnType<DaemonLab["lab"]["start"]>;
function listenOn(port: number): void {
  const program = `require("node:net").createServer().listen(${port}, "127.0.0.1")`;
  other = lab.lab.start("node", [process.execPath, "-e", program]);
}

const ask = async (port: number, to = "127.0.0.1", from: "node" | "node2" = "node") => {
  const outcomes = await lab.lab.probe([{ id: "only", from, to, port, proto: "tcp", n: 40 }]);
  const { result, endpoints = [] } = outcomes.get("only") ?? { result: "none" };
  return result === "ok" ? endpoints : result;
};

describe("NodePorts on loopback", () => {
  test("reach endpoints on this node and on others", async () => {
    expect(await ask(30_090)).toEqual([`${LOCAL} 8080`, `${REMOTE} 8080`]);
  });

  test("reach endpoints over IPv6", async () => {
    expect(await ask(30_095, "::1")).toEqual(["fd00:244:1::11 8080", "fd00:244:2::11 8080"]);
  });

  test("are refused at other loopback addresses, and in a family that the Service does not have", async () => {
    expect(await ask(30_090, "127.0.0.2")).toBe("refused");
    expect(await ask(30_090, "::1")).toBe("refused");
  });

  test("keep session affinity", async () => {
    const answer = await ask(30_091);
    expect(answer).toHaveLength(1);
    expect(await ask(30_091)).toEqual(answer);
  });

  test("with external Local policy reach only endpoints on this node, and are refused without one", async () => {
    expect(await ask(30_092)).toEqual([`${LOCAL} 8080`]);
    expect(await ask(30_093)).toBe("refused");
  });

  test("are still served at the node's primary address", async () => {
    expect(await ask(30_090, NODE)).toEqual([`${LOCAL} 8080`, `${REMOTE} 8080`]);
  });

  test("are served to another node at the primary address only, with affinity and policy", async () => {
    expect(await ask(30_090, NODE, "node2")).toEqual([`${LOCAL} 8080`, `${REMOTE} 8080`]);
    expect(await ask(30_091, NODE, "node2")).toHaveLength(1);
    expect(await ask(30_092, NODE, "node2")).toEqual([`${LOCAL} 8080`]);
    expect(await ask(30_090, "127.0.0.1", "node2")).toBe("refused");
  });

  test.each([
    ["127.0.0.1", 30_096],
    ["[::1]", 30_097],
  ])(
    "transfer an image from a registry at %s, whole and in parts, over kept-alive connections",
    async (host, port) => {
      const server = lab.lab.start("pod1", [process.execPath, REGISTRY, "serve", String(REGISTRY_PORT)]);
      try {
        await new Promise<void>((resolve) => server.onLine(() => resolve()));
        const url = `http://${host}:${port}`;
        const { stdout, stderr } = await lab.lab.exec([process.execPath, REGISTRY, "pull", url]);
        expect(stderr).toBe("");
        const { status, wanted, pulled, resumed, connections } = JSON.parse(stdout);
        expect({ status, pulled, resumed, connections }).toEqual({
          status: 200,
          pulled: wanted,
          resumed: wanted,
          connections: 2,
        });
      } finally {
        server.kill("SIGKILL");
        await server.ended;
      }
    },
  );

  test("that another process uses are reported, and are served after it has ended", async () => {
    expect(daemon.said("cannot bind, retrying (logged once)")).toMatchObject([
      { server: "NodePort of shop/taken", hint: "another process on this node has the port" },
    ]);
    expect(await lab.metric("kubeproxy_nftables_localhost_nodeport_listener_creation_failures_total")).toBe(
      1,
    );
    const events = () => lab.api.events.filter(({ reason }) => reason === "FailedToListenLocalhostNodePort");
    await expect
      .poll(events)
      .toMatchObject([{ regarding: { kind: "Service", namespace: "shop", name: "taken" } }]);
    other.kill("SIGKILL");
    await expect.poll(() => ask(30_094)).toEqual([`${LOCAL} 8080`]);
  });

  test("disappear with their Service, and come back with it", async () => {
    lab.cluster.remove("services", apiService("web", { clusterIP: "10.96.9.1" }));
    await expect.poll(() => ask(30_090)).toBe("refused");
    put("web", 30_090, [REMOTE]);
    await expect.poll(() => ask(30_090)).toEqual([`${REMOTE} 8080`]);
  });

  test("are counted in the metrics", async () => {
    expect(await lab.metric("kubeproxy_nftables_localhost_nodeport_listeners", 'ip_family="IPv6"')).toBe(2);
    await expect.poll(() => lab.metric("nft_proxy_localhost_nodeport_connections")).toBe(0);
  });
});
