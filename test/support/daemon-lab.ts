import { mkdtempSync } from "node:fs";
import { chmod, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { execa } from "execa";
import { expect, vi } from "vitest";
import { netlinkRequests } from "../../src/kernel/netlink-requests.ts";
import { systemClock } from "../../src/kernel/system-clock.ts";
import { RESOURCE_NAMES } from "../../src/kube/source.ts";
import type { Ruleset } from "../../src/nft/ast/ruleset.ts";
import type { ContextOptions } from "./build.ts";
import { bundle, SHORT_TIMEOUTS, townFlags } from "./command.ts";
import { createLab, type Lab } from "./lab/lab.ts";
import { parseWithElements } from "./listed-elements.ts";
import { generationOf } from "./netlink-socket.ts";
import { PATIENCE } from "./patience.ts";
import { textWithoutPlacement } from "./ruleset-text.ts";
import { RunningDaemon } from "./running-daemon.ts";
import { StubApi } from "./stub-api/stub-api.ts";
import { StubCluster } from "./stub-api/stub-cluster.ts";
import { cacheOfApi, rulesetOfCache } from "./town-ruleset.ts";

const SMALL_RANDOM = fileURLToPath(new URL("./small-random.mjs", import.meta.url));

/** This process's end of the link to the node. */
const API_DEVICE = `api${process.pid}`;

/** Answer of an HTTP server of the daemon. */
export interface HttpReply {
  readonly status: number;
  readonly headers: Headers;
  readonly body: string;
}

/**
 * A lab whose node runs the built daemon. Its stub API server runs in this process and is reached through a
 * separate link.
 */
export class DaemonLab {
  readonly lab: Lab;
  readonly #link: Link;
  readonly #directory = mkdtempSync(join(tmpdir(), "daemon-lab-"));
  #api: StubApi | undefined;
  /** 0 before the first API server. */
  #port = 0;

  private constructor(lab: Lab, link: Link) {
    this.lab = lab;
    this.#link = link;
  }

  /** Creates a lab with a stub API server without objects. */
  static async create(): Promise<DaemonLab> {
    const lab = await createLab();
    const link = await connect(lab);
    const made = new DaemonLab(lab, link);
    await made.startApi();
    return made;
  }

  /** The running stub API server. */
  get api(): StubApi {
    if (this.#api === undefined) throw new Error("the API server is away");
    return this.#api;
  }

  /** The objects of that server. */
  get cluster(): StubCluster {
    return this.api.cluster;
  }

  /**
   * Replaces the API server, if any, with a new one on the same port. The new one has these objects, or none.
   */
  async startApi(cluster = new StubCluster()): Promise<void> {
    await this.stopApi();
    this.#api = await StubApi.start({ host: this.#link.here, port: this.#port, cluster });
    this.#port = this.#api.port;
  }

  /** URL of the API server, seen from the node. */
  get master(): string {
    return `http://${this.#link.here}:${this.#port}`;
  }

  /**
   * Starts the daemon with the flags of the towns, and every feature unless `flags` has `--features`.
   * @param from flags that select the source of objects. Default: this lab's API server
   * @param program the bundle, after Node's options. Default: the one just built
   * @param path PATH for other programs. Default: that of this process
   */
  start(
    flags: readonly string[] = [],
    from: readonly string[] = [`--master=${this.master}`],
    program: readonly string[] = [bundle],
    path = process.env.PATH,
  ): RunningDaemon {
    // Earlier versions do not know the option.
    const isNew = program.includes(bundle);
    const servers = ["--metrics-bind-address=0.0.0.0:10249", "--logging-format=json"];
    return new RunningDaemon(
      this.lab.start("node", [
        "env",
        `PATH=${path}`,
        process.execPath,
        `--import=${SMALL_RANDOM}`,
        ...program,
        "run",
        ...townFlags,
        ...servers,
        ...(isNew && !flags.some((flag) => flag.startsWith("--features")) ? ["--features=all"] : []),
        ...from,
        ...flags,
      ]),
    );
  }

  /** Starts the daemon with these flags, too. Its pauses and timeouts of 5 s are over after a second. */
  startImpatient(flags: readonly string[] = []): RunningDaemon {
    return this.start(flags, undefined, [SHORT_TIMEOUTS, bundle]);
  }

  /** Address of the node, seen from this process. */
  get nodeAddress(): string {
    return this.#link.there;
  }

  /** Sends a GET request to a server of the daemon on the node. */
  async get(port: number, path: string, address = this.#link.there): Promise<HttpReply> {
    // A kept connection may be closed by the daemon just as the next request is sent.
    const answer = await fetch(`http://${address}:${port}${path}`, {
      headers: { connection: "close" },
      signal: AbortSignal.timeout(PATIENCE.timeout),
    });
    return { status: answer.status, headers: answer.headers, body: await answer.text() };
  }

  /**
   * Returns the sum of a metric's samples, or 0 if there are none. `labels` is a part of their text, such as
   * `kind="table"`.
   */
  async metric(name: string, labels = ""): Promise<number> {
    const { body } = await this.get(10249, "/metrics");
    const lines = body.split("\n").filter((line) => /^\w+/.exec(line)?.[0] === name && line.includes(labels));
    return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" "))), 0);
  }

  /** Runs nft on the node and returns its output. Throws its error output. */
  nft(...args: readonly string[]): Promise<string> {
    return this.lab.mustRun("node", ["nft", ...args]);
  }

  /** Returns our tables in the kernel. */
  async kernel(): Promise<Ruleset> {
    const listings = await Promise.all(
      (["ip", "ip6"] as const).map((family) =>
        this.lab.exec(["nft", "-j", "list", "table", family, "nft-proxy"]).then(({ exitCode, stdout }) => {
          return exitCode === 0 ? parseWithElements(stdout) : {};
        }),
      ),
    );
    return Object.assign({}, ...listings);
  }

  /** Returns our tables in the kernel as text without order. */
  async kernelText(): Promise<string> {
    return textWithoutPlacement(await this.kernel());
  }

  /** Returns the same text for a new rendering of the API server's objects. */
  wantedText(context: ContextOptions = {}, cluster = this.cluster): string {
    const cache = cacheOfApi((resource) => cluster.objects(resource));
    return textWithoutPlacement(rulesetOfCache(cache, { affinityMapSize: 1_048_576, ...context }));
  }

  /** Waits until the kernel has exactly the rules of a new rendering of the API server's objects. */
  async converged(context: ContextOptions = {}): Promise<void> {
    await this.converging(this.wantedText(context));
  }

  /**
   * Waits until the kernel has exactly these rules. Lists them only after a commit, because two listings take
   * as much processor time as a sync of the daemon.
   */
  async converging(wanted: string): Promise<void> {
    const requests = netlinkRequests(systemClock, await this.socat());
    let listed: number | undefined;
    let found: readonly string[] = [];
    try {
      await vi.waitFor(async () => {
        const generation = await generationOf(requests);
        if (generation !== listed) found = lineDifferences(await this.kernelText(), wanted);
        listed = generation;
        expect(found).toEqual([]);
      }, PATIENCE);
    } finally {
      requests.close();
    }
  }

  /** Returns the path of a socat that runs on the node. */
  async socat(): Promise<string> {
    const enter = `#!/bin/sh\nexec nsenter --net=${this.lab.pathOf("node")} socat "$@"\n`;
    const path = await this.file("socat-of-node", enter);
    await chmod(path, 0o755);
    return path;
  }

  /** Waits until each resource is watched. */
  async watched(): Promise<void> {
    const unwatched = () => RESOURCE_NAMES.filter((name) => this.cluster.watches(name).length === 0);
    await vi.waitFor(() => expect(unwatched()).toEqual([]), PATIENCE);
  }

  /** Adds a route from this process to an address of the node. */
  async reach(address: string): Promise<void> {
    await execa("ip", ["route", "replace", address, "via", this.#link.there]);
  }

  /** Writes a file that the node can read and that is removed with the lab. @returns its path */
  async file(name: string, text: string): Promise<string> {
    const path = join(this.#directory, name);
    await writeFile(path, text);
    return path;
  }

  /** Stops the API server. */
  async stopApi(): Promise<void> {
    const api = this.#api;
    this.#api = undefined;
    await api?.close();
  }

  /** Ends the lab and its API server. */
  async close(): Promise<void> {
    await this.stopApi();
    // The kernel would remove it some time after the node's namespace. The next lab's link has the same name.
    await execa("ip", ["link", "del", API_DEVICE]);
    await this.lab.close();
    await rm(this.#directory, { recursive: true });
  }
}

/** Returns the first lines that only one of two texts has, with `+` for the actual one. */
function lineDifferences(actual: string, wanted: string): readonly string[] {
  const [has, wants] = [actual, wanted].map((text) => new Set(text.split("\n"))) as [
    Set<string>,
    Set<string>,
  ];
  const missing = [...wants].filter((line) => !has.has(line)).map((line) => `- ${line}`);
  return [...missing, ...[...has].filter((line) => !wants.has(line)).map((line) => `+ ${line}`)].slice(0, 20);
}

/** The two ends of the link between this process and the node. */
interface Link {
  readonly here: string;
  readonly there: string;
}

/** Creates that link. */
async function connect(lab: Lab): Promise<Link> {
  const subnet = `172.31.${process.pid % 250}`;
  const [here, there] = [`${subnet}.1`, `${subnet}.2`];
  const peer = ["peer", "name", API_DEVICE, "netns", String(process.pid)];
  const add = ["link", "add", "api", "type", "veth", ...peer];
  const commands = [add, ["addr", "add", `${there}/30`, "dev", "api"], ["link", "set", "api", "up"]];
  for (const command of commands) await lab.mustRun("node", ["ip", ...command]);
  await execa("ip", ["addr", "add", `${here}/30`, "dev", API_DEVICE]);
  await execa("ip", ["link", "set", API_DEVICE, "up"]);
  return { here, there };
}
