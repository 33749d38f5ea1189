import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { spareProcess } from "../../../src/kernel/daemon-nft.ts";
import { ManualClock } from "../../support/manual-clock.ts";

const LIMITS = { timeoutMs: 10_000, maxOutputBytes: 1_000_000 };

/** Prints its process id and its input, and ends with the exit code that the input asks for. */
const ARGS = ["-c", 'read code; echo "$$"; exit $code'];

let clock: ManualClock;
let spare: ReturnType<typeof spareProcess>;

beforeEach(() => {
  clock = new ManualClock();
  spare = spareProcess("sh", ARGS, LIMITS.maxOutputBytes, clock);
});
afterEach(async () => {
  spare.stop();
  await expect.poll(children).toEqual([]);
});

/** Processes that tests of other files left behind. */
const strangers: ReadonlySet<number> = new Set(allChildren());

function allChildren(): number[] {
  const text = readFileSync(`/proc/self/task/${process.pid}/children`, "utf8");
  return text.split(" ").filter(Boolean).map(Number);
}

/** The processes that these tests have started and whose end this process has not noticed. */
function children(): number[] {
  return allChildren().filter((pid) => !strangers.has(pid));
}

async function run(code = 0): Promise<number> {
  const result = await spare.run("sh", ARGS, `${code}\n`, LIMITS);
  expect(result).toMatchObject({ exitCode: code, signal: undefined, startError: undefined, stderr: "" });
  return Number(result.stdout);
}

test("spareProcess starts a spare 3 ms after a run got its input, during the run", async () => {
  const running = run();
  const [first] = children();
  clock.advance(2);
  expect(children()).toEqual([first]);
  clock.advance(1);
  const spare = children().find((pid) => pid !== first);
  expect(await running).toBe(first);
  expect(children()).toEqual([spare]);
});

test("spareProcess gives the next input to its spare, and starts another", async () => {
  await run();
  clock.advance(3);
  const [waiting] = children();
  expect(await run()).toBe(waiting);
  clock.advance(3);
  const [next] = children();
  expect([next === undefined, next === waiting]).toEqual([false, false]);
});

test("spareProcess does not use a spare that has ended, and starts another", async () => {
  await run();
  clock.advance(3);
  const [dead = 0] = children();
  process.kill(dead, "SIGKILL");
  await expect.poll(children).toEqual([]);
  expect(await run()).not.toBe(dead);
  clock.advance(3);
  expect(children()).toHaveLength(1);
});

/**
 * Kills a process and waits for its end without a turn of the event loop, in which this process would notice
 * it.
 */
function killUnnoticed(pid: number): void {
  process.kill(pid, "SIGKILL");
  while (!readFileSync(`/proc/${pid}/stat`, "utf8").includes(") Z ")) {}
}

test.each([
  ["short", "0\n"],
  ["longer than a pipe takes at once", `0\n${"x".repeat(1_000_000)}`],
])(
  "spareProcess starts a process for a %s input when the end of its spare is noticed only then",
  async (_, input) => {
    await run();
    clock.advance(3);
    const [dead = 0] = children();
    killUnnoticed(dead);
    const { exitCode, stdout } = await spare.run("sh", ARGS, input, LIMITS);
    expect(exitCode).toBe(0);
    expect(Number(stdout)).not.toBe(dead);
  },
);

test("spareProcess does not repeat an input if the spare that got all of it was killed", async () => {
  const directory = mkdtempSync(join(tmpdir(), "spare-"));
  const works = ["-c", `read word; echo $word >>${directory}/done; [ $word = live ] || kill -9 $$`];
  spare = spareProcess("sh", works, LIMITS.maxOutputBytes, clock);
  await spare.run("sh", works, "live\n", LIMITS);
  clock.advance(3);
  expect(await spare.run("sh", works, "die\n", LIMITS)).toMatchObject({ signal: "SIGKILL" });
  expect(readFileSync(`${directory}/done`, "utf8")).toBe("live\ndie\n");
  rmSync(directory, { recursive: true });
});

test("spareProcess does not repeat an input after a timeout of the spare", async () => {
  const directory = mkdtempSync(join(tmpdir(), "spare-"));
  const hangs = ["-c", `echo >>${directory}/starts; exec sleep 60`];
  const limits = { ...LIMITS, timeoutMs: 100 };
  spare = spareProcess("sh", hangs, LIMITS.maxOutputBytes, clock);
  const input = "x".repeat(1_000_000);
  await spare.run("sh", hangs, input, limits);
  clock.advance(3);
  expect(await spare.run("sh", hangs, input, limits)).toMatchObject({ timedOut: true });
  expect(readFileSync(`${directory}/starts`, "utf8").length).toBeLessThanOrEqual(2);
  rmSync(directory, { recursive: true });
});

test("spareProcess replaces its spare after a minute", async () => {
  await run();
  clock.advance(3);
  const [old] = children();
  clock.advance(60_000);
  await expect.poll(() => children().length).toBe(1);
  expect(children()).not.toEqual([old]);
});

test("spareProcess also starts a spare during a command that fails, and returns its result", async () => {
  await run();
  clock.advance(3);
  const [spare] = children();
  expect(await run(4)).toBe(spare);
  clock.advance(3);
  expect(children()).toHaveLength(1);
});

test("spareProcess runs other commands directly, without the spare", async () => {
  await run();
  clock.advance(3);
  const before = children();
  expect(await spare.run("cat", [], "input", LIMITS)).toMatchObject({ exitCode: 0, stdout: "input" });
  expect(children()).toEqual(before);
});

test("spareProcess reports a missing program in the run that needs it, not when it starts the spare", async () => {
  spare = spareProcess("/nonexistent/nft", [], LIMITS.maxOutputBytes, clock);
  expect(await spare.run("/nonexistent/nft", [], "", LIMITS)).toMatchObject({ startError: "ENOENT" });
});

test("spareProcess kills its spare on stop(), and starts no other", async () => {
  await run();
  clock.advance(3);
  expect(children()).toHaveLength(1);
  spare.stop();
  await expect.poll(children).toEqual([]);
  await run();
  clock.advance(60_000);
  expect(children()).toEqual([]);
});
