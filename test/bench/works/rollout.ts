import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { clusterIP, POD_PORT, podIP, SERVICE_PORT } from "../cluster-objects.ts";
import { atMost, type Figure, median, time, type Work } from "../figures.ts";
import { type Follower, follow } from "../follow.ts";
import { bringPodsHere } from "../packets.ts";
import { ownProgram, pause } from "../programs.ts";

const SIZE = { services: 10_000, endpoints: 4 };
/** The number of Deployments to roll, one after the other. The figure is the mean of all their endpoints. */
const ROLLED = 7;
/** Pause between two endpoints of a Deployment, as pods become ready one by one. Milliseconds. */
const BETWEEN = 1200;
const CLIENTS = 2;
/**
 * Pause before the first Deployment, milliseconds. If nothing changes, the daemon gives memory back once, 3 s
 * after its first sync, and stops twice for some 0.1 s. Between two Deployments nothing changes for as long,
 * so without this pause one endpoint had to wait in some runs.
 */
const SETTLING = 5000;

/**
 * Maximum number of connections that wait to be accepted. Clients that connect without a pause are faster
 * than the pods, and the kernel drops connections beyond this number. A dropped connection is retried after a
 * second (ListenOverflows in /proc/net/netstat counts them).
 */
const BACKLOG = 65_535;

/**
 * How long the kernel tracks a connection after its reset, seconds, 10 by default. The clients reset some
 * 30,000 connections a second. In 10 seconds these would fill the table of tracked connections (262,144), and
 * the kernel would drop SYNs for seconds ("nf_conntrack: table full").
 */
const RESET_TRACKED = 1;

/** A pod on this host that accepts connections. */
async function podAt(address: string): Promise<Server> {
  const server = createServer((socket) => socket.on("error", () => {}).resume());
  server.listen({ host: address, port: POD_PORT, backlog: BACKLOG });
  await once(server, "listening");
  return server;
}

/** The start and end of a failed connection, milliseconds since 1970. */
type Failure = readonly [started: number, ended: number];

/** Clients that connect without a pause. */
class Clients {
  readonly #children: readonly ReturnType<typeof spawn>[];

  constructor(address: string) {
    this.#children = Array.from({ length: CLIENTS }, (_, client) => {
      const [program = "", ...args] = ownProgram(
        "tcp-program.ts",
        "watch",
        address,
        `${SERVICE_PORT}`,
        `${client}`,
      );
      return spawn(program, args, { stdio: ["pipe", "pipe", "inherit"] });
    });
  }

  async ready(): Promise<void> {
    await Promise.all(this.#children.map(({ stdout }) => once(stdout as NodeJS.ReadableStream, "data")));
  }

  /** Stops the clients. */
  async stop(): Promise<readonly Failure[]> {
    const failures = await Promise.all(
      this.#children.map(async (child) => {
        child.stdin?.end();
        let text = "";
        for await (const chunk of child.stdout ?? []) text += chunk;
        return (JSON.parse(text) as { failures: Failure[] }).failures;
      }),
    );
    return failures.flat();
  }
}

/**
 * Rolls one Deployment.
 * @returns how long connections failed after each of its endpoints was gone, milliseconds
 */
async function roll({ churn }: Follower, service: number): Promise<readonly number[]> {
  const old = await Promise.all(
    Array.from({ length: SIZE.endpoints }, (_, i) => podAt(podIP(service * SIZE.endpoints + i))),
  );
  const fresh: Server[] = [];
  const clients = new Clients(clusterIP(service));
  await clients.ready();
  const gone: number[] = [];
  for (const [index, server] of old.entries()) {
    await pause(BETWEEN);
    fresh.push(await podAt(churn.nextAddress));
    gone.push(performance.timeOrigin + performance.now());
    churn.replace(service, index);
    server.close();
  }
  await pause(BETWEEN);
  const failures = await clients.stop();
  for (const server of fresh) server.close();
  return gone.map((at, index) => {
    const until = gone[index + 1] ?? Number.POSITIVE_INFINITY;
    // A connection may have started before its endpoint was gone.
    const own = failures.filter(([, ended]) => ended >= at && ended < until);
    return own.reduce((window, [started]) => Math.max(window, started - at), 0);
  });
}

async function measure(args: readonly string[], name: string, limit?: number): Promise<Figure> {
  const windows = await follow(SIZE, args, async (follower) => {
    const all: number[] = [];
    await pause(SETTLING);
    for (let service = 0; service < ROLLED; service++) all.push(...(await roll(follower, service)));
    return all;
  });
  const mean = windows.reduce((sum, window) => sum + window, 0) / windows.length;
  return {
    work: `rolling a Deployment of ${SIZE.endpoints} under constant connections, ${SIZE.services.toLocaleString("en")} Services, ${name}: connections fail for, an endpoint`,
    value: `${time(mean)}, p50 ${time(median(windows))}, at most ${time(Math.max(...windows))}`,
    ...(limit === undefined ? {} : { budget: atMost(mean, limit, time(limit)) }),
  };
}

/**
 * Measures the effect of a rolling update on users. An endpoint stops answering when its event is sent, and
 * connections to it fail until the kernel has the change.
 */
export const rollout: Work = {
  name: "rollout",
  summary: "how long connections fail while a Deployment is rolled",
  run: async () => {
    await bringPodsHere();
    await writeFile("/proc/sys/net/core/somaxconn", String(BACKLOG));
    await writeFile("/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_close", String(RESET_TRACKED));
    return [
      await measure([], "adaptive interval", 20),
      await measure(["--iptables-min-sync-period=10ms"], "an interval of 10 ms"),
      await measure(["--iptables-min-sync-period=1s"], "an interval of 1 s"),
    ];
  },
};
