import { spawn } from "node:child_process";
import { createSocket, type Socket } from "node:dgram";
import { once } from "node:events";
import { cpus } from "node:os";
import { nftProgram } from "../../src/kernel/nft.ts";
import { Reconciler } from "../../src/sync/reconciler.ts";
import { nftTables } from "../support/nft-tables.ts";
import { cachePath } from "./cluster-files.ts";
import { type ClusterSize, clusterIP, laterPodIP, POD_PORT, SERVICE_PORT } from "./cluster-objects.ts";
import { percentile } from "./figures.ts";
import { bareRuleset, clearTables } from "./kernel.ts";
import { writeKubeProxyShape } from "./kube-proxy-shape.ts";
import { contextsOf, loadCache } from "./load-cache.ts";
import { mustRun, ownProgram } from "./programs.ts";

/** The number of packets. Each has a different source port, and so is the first of its flow. */
const PACKETS = 4000;
const WARM_UP = 500;
const PATIENCE = 2000;
/** The address of a pod of this node that is not an endpoint. */
const CLIENT = laterPodIP(1);

/** Makes all pods' addresses local addresses of this host, and routes the cluster IPs to it. */
export async function bringPodsHere(): Promise<void> {
  for (const route of [["local", "10.128.0.0/9"], ["10.96.0.0/12"]]) {
    await mustRun(["ip", "route", "replace", ...route, "dev", "lo"]);
  }
}

/**
 * Keeps this process and its children on one processor while `use` runs. The scheduler's placement of the two
 * ends of a round trip would make a larger difference than any rules.
 */
export async function onOneProcessor<T>(use: () => Promise<T>): Promise<T> {
  const pin = async (processors: string) =>
    await mustRun(["taskset", "-a", "-cp", processors, String(process.pid)]);
  await pin("0");
  try {
    return await use();
  } finally {
    await pin(`0-${cpus().length - 1}`);
  }
}

/** Programs the rules of a made-up cluster on this host, with the default options. */
export async function programRules(size: ClusterSize): Promise<void> {
  await clearTables();
  const cache = loadCache(size);
  const nft = nftProgram({ path: "nft" });
  const reconciler = new Reconciler({ cache, nft, tables: nftTables(nft) });
  await reconciler.sync({ nodeContext: contextsOf(cache, "off"), services: cache.takeDirty() });
}

/** Programs the same Services in the shape of kube-proxy's nftables mode. */
export async function programKubeProxyShape(size: ClusterSize): Promise<void> {
  const path = cachePath("packets.nft");
  await writeKubeProxyShape(path, size);
  await bareRuleset(path);
}

/** Runs echo servers for the pods of the first Services while `use` runs. */
export async function withEcho<T>(pods: number, use: () => Promise<T>): Promise<T> {
  const [program = "", ...args] = ownProgram("echo-program.ts", String(pods));
  const echo = spawn(program, args, { stdio: ["ignore", "pipe", "inherit"] });
  try {
    await once(echo.stdout, "data");
    return await use();
  } finally {
    echo.kill();
  }
}

/** Returns the median round trip of first packets to a Service's cluster IP, milliseconds. */
export async function throughService(services: number): Promise<number> {
  return await roundTrips((i) => ({ address: clusterIP(i % services), port: SERVICE_PORT }));
}

/** Returns the same for packets directly to a pod. */
export async function straight(address: string): Promise<number> {
  return await roundTrips(() => ({ address, port: POD_PORT }));
}

async function roundTrips(target: (i: number) => { address: string; port: number }): Promise<number> {
  const times: number[] = [];
  for (let i = 0; i < PACKETS; i++) {
    const { address, port } = target(i);
    const socket = createSocket("udp4");
    socket.bind(0, CLIENT);
    await once(socket, "listening");
    times.push(await roundTrip(socket, address, port));
    socket.close();
  }
  return percentile(times.slice(WARM_UP), 0.5);
}

function roundTrip(socket: Socket, address: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no answer from ${address}:${port}`)), PATIENCE);
    const started = performance.now();
    socket.once("message", () => {
      const ms = performance.now() - started;
      clearTimeout(timer);
      resolve(ms);
    });
    socket.send("x", port, address);
  });
}
