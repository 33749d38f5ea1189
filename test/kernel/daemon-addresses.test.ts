import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { apiService, apiSlice } from "../support/api-objects.ts";
import { DaemonLab } from "../support/daemon-lab.ts";
import { HeldFlow } from "../support/held-flow.ts";
import type { RunningDaemon } from "../support/running-daemon.ts";
import { townList } from "../support/stub-api/town.ts";

const port = (nodePort: number) => ({ port: 53, protocol: "UDP", targetPort: 53, nodePort }) as const;

const UDP = { port: 53, protocol: "UDP", targetPort: 53 } as const;

/** Virtual addresses that the outside client routes to the node, as keepalived moves them. */
const ROWS = [
  { vip: "198.51.100.77", nodePort: 30_053, clusterIP: "10.96.7.53", endpoint: "10.244.1.11" },
  { vip: "fd00:1b::77", nodePort: 30_054, clusterIP: "fd00:10:96::7:53", endpoint: "fd00:244:1::11" },
] as const;

/** Addresses that no interface has: MetalLB assigns them to Services, and announces one node for each. */
const ASSIGNED = [
  { vip: "198.51.100.99", clusterIPs: ["10.96.7.98", "10.96.7.99"], pods: ["10.244.1.11", "10.244.2.12"] },
  {
    vip: "fd00:1b::99",
    clusterIPs: ["fd00:10:96::7:98", "fd00:10:96::7:99"],
    pods: ["fd00:244:1::11", "fd00:244:2::12"],
  },
] as const;

/** Until the daemon has noticed a change of addresses; its own maximum is less than a second. */
const NOTICED = { timeout: 10_000, interval: 20 };

let lab: DaemonLab;
let daemon: RunningDaemon;
beforeAll(async () => {
  lab = await DaemonLab.create();
  for (const resource of ["nodes", "servicecidrs"] as const)
    lab.cluster.load(resource, townList("town", resource));
  for (const { nodePort, clusterIP, endpoint } of ROWS) {
    lab.cluster.put("services", apiService(`dns-${nodePort}`, { clusterIP, ports: [port(nodePort)] }));
    lab.cluster.put("endpointslices", apiSlice(`dns-${nodePort}`, [endpoint], [port(nodePort)]));
  }
  // As on real nodes, another program's rules keep connection tracking on, and packets to the addresses have
  // a route while another node has them.
  for (const family of ["ip", "ip6"])
    await lab.nft(
      `add table ${family} cni { chain forward { type filter hook forward priority 0; ct state invalid drop; }; }`,
    );
  await ip("link add sink type veth peer name drain");
  for (const name of ["sink", "drain"]) await ip(`link set ${name} up`);
  for (const { vip } of [...ROWS, ...ASSIGNED]) await ip(`route add ${vip} dev sink`);
});
afterAll(() => lab?.close());
afterEach(async () => {
  await daemon.stop();
});

async function ip(command: string): Promise<void> {
  expect(await lab.lab.exec(["ip", ...command.split(" ")])).toMatchObject({ exitCode: 0 });
}

describe.each([
  ["all addresses serve NodePorts", "0.0.0.0/0,::/0"],
  ["addresses of a CIDR serve NodePorts", "198.51.100.0/24,fd00:1b::/64"],
])("while %s", (_, addresses) => {
  test.each(ROWS)(
    "a UDP client of $vip is answered as soon as the node has it, and no longer",
    async ({ vip, nodePort, endpoint }) => {
      daemon = lab.start([`--nodeport-addresses=${addresses}`, "--iptables-sync-period=1h"]);
      await daemon.saying("full sync");
      const flow = new HeldFlow(lab.lab, "ext", vip, nodePort);
      await flow.answeredBy("nobody");
      await ip(`address add ${vip} dev sink nodad`);
      await expect.poll(() => flow.answers.at(-1), NOTICED).toBe(endpoint);
      await ip(`address del ${vip} dev sink`);
      await expect.poll(() => flow.answers.at(-1), NOTICED).toBe("nobody");
    },
  );
});

test.each(ASSIGNED)(
  "a UDP client of $vip follows the load balancer's address from one Service to another",
  async ({ vip, clusterIPs, pods }) => {
    daemon = lab.start(["--iptables-sync-period=1h"]);
    await daemon.saying("full sync");
    const put = (of: 0 | 1, ingress: readonly object[]) => {
      const name = `voice-${of}-${vip.includes(":") ? 6 : 4}`;
      const options = { clusterIP: clusterIPs[of], ports: [UDP], spec: { type: "LoadBalancer" } };
      lab.cluster.put("services", { ...apiService(name, options), status: { loadBalancer: { ingress } } });
      lab.cluster.put("endpointslices", apiSlice(name, [pods[of]], [UDP]));
    };
    const flow = new HeldFlow(lab.lab, "ext", vip, 53);
    await flow.answeredBy("nobody");
    put(0, [{ ip: vip }]);
    await expect.poll(() => flow.answers.at(-1), NOTICED).toBe(pods[0]);
    put(0, []);
    put(1, [{ ip: vip }]);
    await expect.poll(() => flow.answers.at(-1), NOTICED).toBe(pods[1]);
    put(1, []);
    await expect.poll(() => flow.answers.at(-1), NOTICED).toBe("nobody");
  },
);
