import { runProcess } from "../../src/kernel/process.ts";
import { laterPodIP, podIP } from "./cluster-objects.ts";
import { clearTables } from "./kernel.ts";
import { KernelMonitor } from "./kernel-monitor.ts";
import { pause, runProgram } from "./programs.ts";

const LIMITS = { timeoutMs: 60_000, maxOutputBytes: 1_000_000 };
const TABLE = { family: "ip", name: "bench-bare" };
const MAP = { family: "ip", table: TABLE.name, name: "endpoints" };
/** Elements in one transaction. nft is slow with the JSON of more elements. */
const CHUNK = 20_000;

type Element = readonly [mark: number, address: string];

/** Runs `nft -j -f -` to its end. */
async function nft(...commands: readonly object[]): Promise<void> {
  const { exitCode, stderr } = await runProcess(
    "nft",
    ["-j", "-f", "-"],
    JSON.stringify({ nftables: commands }),
    LIMITS,
  );
  if (exitCode !== 0) throw new Error(`nft refused a change of its own map: ${stderr}`);
}

function element(how: "add" | "delete", ...elements: readonly Element[]): object {
  return { [how]: { element: { ...MAP, elem: elements } } };
}

/**
 * Measures how long nft alone takes to replace one element of a map, from its start to the kernel's commit.
 * Each change waits for the end of the previous nft, as the daemon's changes do.
 * @param size elements of the map
 * @param gap pause from a commit to the next change, milliseconds
 * @returns the time of each change, milliseconds
 */
export async function bareChangeTimes(size: number, changes: number, gap: number): Promise<number[]> {
  await clearTables();
  const monitor = await KernelMonitor.start();
  try {
    await nft({ add: { table: TABLE } }, { add: { map: { ...MAP, type: "mark", map: "ipv4_addr" } } });
    const all = Array.from({ length: size }, (_, i): Element => [i, podIP(i)]);
    for (let at = 0; at < size; at += CHUNK) await nft(element("add", ...all.slice(at, at + CHUNK)));
    await monitor.caughtUp();
    return await replaceEach(all, changes, gap, monitor);
  } finally {
    monitor.stop();
    await runProgram(["nft", "delete", "table", TABLE.family, TABLE.name]);
  }
}

async function replaceEach(
  all: readonly Element[],
  changes: number,
  gap: number,
  monitor: KernelMonitor,
): Promise<number[]> {
  const times: number[] = [];
  let ended = Promise.resolve();
  for (const [i, [mark, address]] of all.slice(0, changes).entries()) {
    const started = performance.now();
    const committed = monitor.added(laterPodIP(i));
    await ended;
    ended = nft(element("delete", [mark, address]), element("add", [mark, laterPodIP(i)]));
    times.push((await committed) - started);
    await pause(gap);
  }
  await ended;
  return times;
}
