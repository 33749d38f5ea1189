import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { dirname } from "node:path";
import { execa } from "execa";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { apiService, apiSlice } from "../support/api-objects.ts";
import { bundle, townFlags, townObjects } from "../support/command.ts";
import { DaemonLab } from "../support/daemon-lab.ts";
import type { RunningDaemon } from "../support/running-daemon.ts";
import { loadTown } from "../support/stub-api/town.ts";

// The helper programs that read from the kernel, and the daemon's behaviour if one is killed, hangs or is
// missing.

const PORT = { port: 7000, targetPort: 7000 };
const ELEMENT = "ip nft-proxy lists { 10.96.7.7 . tcp . 7000 }";
const repaired = "another program changed the rules, repaired";
const repairing = "another program changed the rules: repairing";

let lab: DaemonLab;
let namespace: string;
let daemon: RunningDaemon;
beforeAll(async () => {
  lab = await DaemonLab.create();
  namespace = (await lab.lab.mustRun("node", ["readlink", "/proc/self/ns/net"])).trim();
  loadTown(lab.cluster);
  lab.cluster.put("services", apiService("echo", { clusterIP: "10.96.7.7", ports: [PORT] }));
  lab.cluster.put("endpointslices", apiSlice("echo", ["10.244.1.11"], [PORT]));
});
afterAll(() => lab?.close());
afterEach(async () => {
  await daemon.stop();
  await lab.nft("flush", "ruleset");
});

/** Returns the process ids of the helpers on the node: those that listen, or those that send requests. */
function helpers(areListeners: boolean): readonly number[] {
  return readdirSync("/proc").flatMap((name) => {
    try {
      const socket = /\0(SOCKET-DATAGRAM:16:3:12:[^\0]*)/.exec(
        readFileSync(`/proc/${name}/cmdline`, "utf8"),
      )?.[1];
      const isMeant = socket !== undefined && socket.includes(",bind=") === areListeners;
      return isMeant && readlinkSync(`/proc/${name}/ns/net`) === namespace ? [Number(name)] : [];
    } catch {
      return [];
    }
  });
}

const listeners = () => helpers(true);

async function theListener(): Promise<number> {
  await expect.poll(listeners).toHaveLength(1);
  return listeners()[0] ?? 0;
}

/** Returns the daemon's warnings about reading the kernel. */
const warnings = () =>
  daemon.log.filter(({ level, msg }) => level !== "info" && /netlink|notifications/.test(msg));

const isLive = async () => (await lab.get(10256, "/livez")).status === 200;

describe("the helper that listens to the kernel", () => {
  beforeEach(async () => {
    daemon = lab.start(["--full-resync-period=10h"]);
    await lab.converged();
  });

  /** Checks that the present helper reports a change. */
  async function hasNotifications(): Promise<void> {
    const told = daemon.said(repairing).length;
    await lab.nft(`delete element ${ELEMENT}`);
    await daemon.saying(repairing, told + 1);
    await lab.converged();
  }

  test("is restarted after it was killed, and changes in the meantime are repaired", async () => {
    const killed = await theListener();
    process.kill(killed, "SIGKILL");
    await lab.nft(`delete element ${ELEMENT}`);
    await daemon.saying(repaired);
    await lab.converged();
    expect(await theListener()).not.toBe(killed);
    await hasNotifications();
    expect(warnings()).toEqual([]);
  });

  test("is replaced when it hangs, and changes in the meantime are repaired", async () => {
    await daemon.stop();
    daemon = lab.startImpatient(["--full-resync-period=10h"]);
    await daemon.saying("full sync");
    const hanging = await theListener();
    process.kill(hanging, "SIGSTOP");
    await lab.nft("add element ip nft-proxy cluster-ips { 192.0.2.68 }");
    await lab.nft("flush chain ip nft-proxy services");
    // The daemon keeps programming changes while it waits for an answer.
    lab.cluster.put("endpointslices", apiSlice("echo", ["10.244.1.12"], [PORT]));
    await expect.poll(() => lab.nft("list map ip nft-proxy endpoints")).toContain(" : 10.244.1.12 . 7000");
    expect(await isLive()).toBe(true);
    await daemon.saying(repaired);
    await lab.converged();
    expect(listeners()).not.toContain(hanging);
    await hasNotifications();
  });

  test("ends with the daemon, even if the daemon is killed", async () => {
    await theListener();
    daemon.signal("SIGKILL");
    await daemon.ended;
    await expect.poll(listeners).toEqual([]);
  });
});

describe("the helper that sends requests to the kernel", () => {
  test("is restarted after it was killed, and no full resync fails", async () => {
    daemon = lab.start(["--full-resync-period=1s"]);
    await lab.converged();
    const same = () => lab.metric("nft_proxy_full_resyncs_total", 'result="same"');
    for (let round = 0; round < 3; round++) {
      // One for the tables, and for a while one for flows.
      await expect.poll(() => helpers(false)).not.toEqual([]);
      const before = await same();
      for (const pid of helpers(false)) process.kill(pid, "SIGKILL");
      await expect.poll(same).toBeGreaterThan(before);
    }
    expect(await lab.metric("nft_proxy_full_resyncs_total", 'result="failed"')).toBe(0);
    expect(warnings()).toEqual([]);
  });

  test("is replaced when it hangs, and does not delay changes and repairs for long", async () => {
    daemon = lab.startImpatient(["--full-resync-period=2s"]);
    await lab.converged();
    // One for the tables, and after each full sync one for flows.
    await expect.poll(() => helpers(false)).not.toEqual([]);
    const hanging = new Set(helpers(false));
    for (const pid of hanging) process.kill(pid, "SIGSTOP");
    for (const [n, interfere] of [
      `delete element ${ELEMENT}`,
      "flush chain ip nft-proxy services",
    ].entries()) {
      lab.cluster.put("endpointslices", apiSlice("echo", [`10.244.1.${14 + n}`], [PORT]));
      await lab.converged();
      await lab.nft(interfere);
      await lab.converged();
    }
    await expect.poll(() => helpers(false).filter((pid) => hanging.has(pid))).toEqual([]);
  });
});

test.each(["run", "apply", "diff"])(
  "%s without socat ends with the name of what to install",
  async (name) => {
    let path = "";
    for (const program of ["nft", "ip", "prlimit"]) {
      const { stdout } = await execa("which", [program]);
      const file = await lab.file(program, `#!/bin/sh\nexec ${stdout} "$@"\n`);
      await execa("chmod", ["+x", file]);
      path = dirname(file);
    }
    const program = ["env", `PATH=${path}`, process.execPath, bundle] as const;
    const ended = await lab.lab.exec([...program, name, "--from", townObjects("town"), ...townFlags]);
    expect(ended.exitCode).toBeGreaterThan(0);
    expect(ended.stderr).toContain("cannot start socat (ENOENT)");
    expect(ended.stderr).toContain("install the package socat");
  },
);
