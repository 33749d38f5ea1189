import { readdirSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { describe, expect, test } from "vitest";
import { conntrackTable, type FlowTable, parseFlow } from "../../../src/kernel/conntrack.ts";
import { ProgramError, streamLines } from "../../../src/kernel/stream-lines.ts";

const TRANSLATED =
  "udp      17 29 src=10.244.1.9 dst=10.96.0.10 sport=20002 dport=53 [UNREPLIED] src=10.244.1.5 dst=10.244.1.9 sport=5300 dport=20002 mark=0 use=1 id=3405691582";
const COUNTED =
  "udp      17 119 src=fd00::1 dst=fd00::10 sport=9 dport=53 packets=3 bytes=99 src=fd00::5 dst=fd00::1 sport=5300 dport=9 packets=2 bytes=70 [ASSURED] mark=16384 use=1 id=7";

const UNANSWERED =
  "tcp      6 119 SYN_SENT src=10.244.1.9 dst=10.96.0.10 sport=43034 dport=80 [UNREPLIED] src=10.244.1.5 dst=10.244.1.9 sport=8080 dport=43034 mark=0 use=1 id=4024477128";

const OFFLOADED = TRANSLATED.replace("17 29", "17")
  .replace("[UNREPLIED] ", "")
  .replace("mark", "[OFFLOAD] mark");
const ZONED = TRANSLATED.replace("mark=0", "mark=0 zone=7");

function fakeTool(lines: readonly string[]) {
  const calls: string[] = [];
  const stream = async function* (_path: string, args: readonly string[]) {
    const [option, file = ""] = args;
    calls.push(option === "--load-file" ? readFileSync(file, "utf8") : args.join(" "));
    yield* lines;
  };
  return { tool: conntrackTable("conntrack", stream), calls };
}

/** A conntrack that ends with status 1. */
function failing(stderr: string): FlowTable {
  // biome-ignore lint/correctness/useYield: it prints nothing
  return conntrackTable("conntrack", async function* (path, args) {
    const flags = { timedOut: false, tooMuchOutput: false, aborted: false };
    throw new ProgramError([path, ...args], {
      exitCode: 1,
      signal: undefined,
      startError: undefined,
      stderr,
      ...flags,
    });
  });
}

describe("parseFlow", () => {
  test.each([
    [TRANSLATED, ["10.244.1.9", 20002], ["10.96.0.10", 53], ["10.244.1.5", 5300], 3_405_691_582, undefined],
    [COUNTED, ["fd00::1", 9], ["fd00::10", 53], ["fd00::5", 5300], 7, undefined],
    [ZONED, ["10.244.1.9", 20002], ["10.96.0.10", 53], ["10.244.1.5", 5300], 3_405_691_582, 7],
    [OFFLOADED, ["10.244.1.9", 20002], ["10.96.0.10", 53], ["10.244.1.5", 5300], 3_405_691_582, undefined],
  ] as const)('reads "%s"', (line, [client, clientPort], [to, port], [from, fromPort], id, zone) => {
    expect(parseFlow(line)).toEqual({
      protocol: "udp",
      id,
      client: { address: client, port: clientPort },
      destination: { address: to, port },
      replySource: { address: from, port: fromPort },
      zone,
    });
  });

  test.each(["", "conntrack v1.4.8 (conntrack-tools): 2 flow entries have been shown."])(
    "gives undefined for %j",
    (line) => {
      expect(parseFlow(line)).toBeUndefined();
    },
  );
});

describe("conntrackTable", () => {
  test("lists UDP flows of each family by name, because an old conntrack lists only IPv4 by default", async () => {
    const { tool, calls } = fakeTool([TRANSLATED]);
    const flows = [];
    for await (const flow of tool.udpFlows()) flows.push(flow.destination.address);
    expect(flows).toEqual(["10.96.0.10", "10.96.0.10"]);
    expect(calls).toEqual(["-L -f ipv4 -p udp -o id", "-L -f ipv6 -p udp -o id"]);
  });

  test("lists the TCP connections whose SYN was not answered", async () => {
    const { tool, calls } = fakeTool([UNANSWERED]);
    const flows = [];
    for await (const flow of tool.unansweredConnections()) flows.push(flow);
    expect(flows).toMatchObject([{ protocol: "tcp", replySource: { port: 8080 } }, {}]);
    expect(calls).toEqual([
      "-L -f ipv4 -p tcp --state SYN_SENT -o id",
      "-L -f ipv6 -p tcp --state SYN_SENT -o id",
    ]);
  });

  test("changes TCP connections only while they are not answered", async () => {
    const { tool, calls } = fakeTool([]);
    const waiting = [UNANSWERED].flatMap((line) => parseFlow(line) ?? []);
    await tool.expireFlows(waiting);
    await tool.deleteFlowsLike(waiting);
    expect(calls).toEqual([
      "-A -p tcp --state SYN_SENT -s 10.244.1.9 --sport 43034 -d 10.96.0.10 --dport 80 -t 0\n",
      "-D -f ipv4 -p tcp --state SYN_SENT -d 10.96.0.10 --dport 80 -r 10.244.1.5 --reply-port-src 8080",
    ]);
  });

  const flows = [TRANSLATED, COUNTED, ZONED].flatMap((line) => parseFlow(line) ?? []);

  test("expires flows with one process", async () => {
    const { tool, calls } = fakeTool([]);
    await tool.expireFlows(flows);
    expect(calls).toEqual([
      [
        "-A -p udp -s 10.244.1.9 --sport 20002 -d 10.96.0.10 --dport 53 -t 0",
        "-A -p udp -s fd00::1 --sport 9 -d fd00::10 --dport 53 -t 0",
        "-A -p udp -s 10.244.1.9 --sport 20002 -d 10.96.0.10 --dport 53 -w 7 -t 0",
        "",
      ].join("\n"),
    ]);
  });

  test("deletes flows of one destination and reply source with one process, in any zone", async () => {
    const { tool, calls } = fakeTool([TRANSLATED]);
    await tool.deleteFlowsLike(flows);
    expect(calls).toEqual([
      "-D -f ipv4 -p udp -d 10.96.0.10 --dport 53 -r 10.244.1.5 --reply-port-src 5300",
      "-D -f ipv6 -p udp -d fd00::10 --dport 53 -r fd00::5 --reply-port-src 5300",
    ]);
  });

  test.each([
    [
      "takes flows that ended by themselves for deleted",
      "conntrack v1.4.7: 0 flow entries have been deleted.",
      true,
    ],
    [
      "throws what conntrack says when it cannot delete flows",
      "Operation failed: sorry, you must be root",
      false,
    ],
  ])("%s", async (_, stderr, isDone) => {
    const deleted = failing(stderr).deleteFlowsLike(flows);
    await (isDone ? deleted : expect(deleted).rejects.toThrow(stderr));
  });

  test("throws conntrack's message if it cannot expire flows, and leaves no file", async () => {
    const left = () => readdirSync(tmpdir()).filter((name) => name.startsWith("nft-proxy-flows-"));
    const before = left();
    await expect(failing("you must be root").expireFlows(flows)).rejects.toThrow("you must be root");
    expect(left()).toEqual(before);
  });
});

describe("streamLines", () => {
  async function collect(path: string, args: readonly string[]): Promise<string[]> {
    const lines = [];
    for await (const line of streamLines(path, args)) lines.push(line);
    return lines;
  }

  test("yields the lines that a program prints", async () => {
    expect(await collect("printf", ["a\\nb b\\n"])).toEqual(["a", "b b"]);
  });

  test("leaves no timer that delays the exit if a program cannot be started", async () => {
    const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === "Timeout").length;
    const before = timers();
    for (let n = 0; n < 5; n++) await expect(collect("/no-such-directory/program", [])).rejects.toThrow();
    // A timer of another file in this process may begin or end meanwhile.
    expect(timers() - before).toBeLessThan(5);
  });

  test("throws an AppError with the program's message if it is missing or fails", async () => {
    await expect(collect("/no-such-directory/program", [])).rejects.toMatchObject({
      code: "HOST",
      message: "cannot start /no-such-directory/program (ENOENT)",
    });
    await expect(collect("ls", ["/no-such-directory"])).rejects.toMatchObject({
      code: "HOST",
      evidence: { stderr: expect.stringContaining("No such file or directory") },
    });
  });
});
