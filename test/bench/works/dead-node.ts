import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { type ClusterSize, endpointObject, POD_PORT, podIP, sliceObject } from "../cluster-objects.ts";
import { deadNodePlot } from "../dead-node-plot.ts";
import { atMost, type Figure, time, type Work } from "../figures.ts";
import { follow } from "../follow.ts";
import { bringPodsHere } from "../packets.ts";
import { mustRun, ownProgram, pause } from "../programs.ts";

/** Pods are on two nodes in turn: one that dies, and ours. */
const NODES = 2;
const SIZE: ClusterSize = { services: 20, endpoints: 4, nodes: NODES };
const PER_SECOND = 200;
/** Until the node dies, and from the end of its endpoints to the end of the clients. Milliseconds. */
const BEFORE = 5000;
const AFTER = 5000;
/**
 * The default of kube-controller-manager's --node-monitor-grace-period before Kubernetes 1.32. Milliseconds.
 */
const GRACE_PERIOD = 40_000;
const PLOT = new URL("../../../docs/passive-health-checks.svg", import.meta.url);

/** When connections that failed were started, milliseconds after the node died. */
type Failures = readonly number[];

function podsOf(service: number): number[] {
  return Array.from({ length: SIZE.endpoints }, (_, index) => service * SIZE.endpoints + index);
}

const isDead = (pod: number) => pod % NODES === 0;
const services = Array.from({ length: SIZE.services }, (_, service) => service);

/**
 * Runs pods and clients while `use` runs. @returns when connections that failed were started, milliseconds
 * since 1970
 */
async function withEnds(use: () => Promise<void>): Promise<readonly number[]> {
  const start = (...args: readonly string[]) => {
    const [program = "", ...rest] = ownProgram("tcp-program.ts", ...args);
    return spawn(program, rest, { stdio: ["pipe", "pipe", "inherit"] });
  };
  const pods = start("serve", `${SIZE.services * SIZE.endpoints}`);
  try {
    await once(pods.stdout, "data");
    const clients = start("rate", `${SIZE.services}`, `${PER_SECOND}`);
    await once(clients.stdout, "data");
    await use();
    clients.stdin.end();
    let text = "";
    for await (const chunk of clients.stdout) text += chunk;
    return JSON.parse(text);
  } finally {
    pods.kill();
  }
}

/** Has the pods of the node drop what they get. */
async function die(): Promise<void> {
  const pods = services.flatMap(podsOf).filter(isDead).map(podIP);
  const rule = `ip daddr { ${pods.join(", ")} } tcp dport ${POD_PORT} drop`;
  await mustRun([
    "nft",
    `table ip dead-node { chain in { type filter hook input priority raw; ${rule}; }; }`,
  ]);
}

async function failures(args: readonly string[]): Promise<Failures> {
  return await follow(SIZE, args, async ({ api }) => {
    let diedAt = 0;
    const failed = await withEnds(async () => {
      await pause(BEFORE);
      diedAt = performance.timeOrigin + performance.now();
      await die();
      await pause(GRACE_PERIOD);
      for (const service of services) {
        const left = podsOf(service).filter((pod) => !isDead(pod));
        const entries = left.map((pod) => endpointObject(service, podIP(pod), pod, NODES));
        api.cluster.put("endpointslices", sliceObject(service, 0, entries));
      }
      await pause(AFTER);
    }).finally(() => mustRun(["nft", "delete", "table", "ip", "dead-node"]));
    return failed.map((startedAt) => startedAt - diedAt);
  });
}

function figure(name: string, failed: Failures, limit?: number): Figure {
  const last = Math.max(0, ...failed);
  return {
    work: `a node with half of the endpoints of ${SIZE.services} Services dies, ${PER_SECOND} connections/s, ${name}: connections fail`,
    value: `${failed.length.toLocaleString("en")}, the last ${time(last)} after its death`,
    ...(limit === undefined ? {} : { budget: atMost(last, limit, time(limit)) }),
  };
}

/** What clients meet when a node dies, until Kubernetes has noticed. Draws docs/passive-health-checks.svg. */
export const deadNode: Work = {
  name: "dead-node",
  summary: "connections that fail when a node dies, with and without passive health checks",
  run: async () => {
    await bringPodsHere();
    const without = await failures([]);
    const passive = await failures(["--passive-health-check=on"]);
    const times = { before: BEFORE / 1000, noticed: GRACE_PERIOD / 1000, after: AFTER / 1000 };
    await writeFile(PLOT, deadNodePlot({ without, with: passive }, times));
    return [
      figure("without passive health checks", without),
      figure("with passive health checks", passive, 10_000),
    ];
  },
};
