import { describe, expect, test } from "vitest";
import { AppError } from "../../../src/base/errors.ts";
import { Conntrack, parseFlow } from "../../../src/kernel/conntrack.ts";
import { streamLines } from "../../../src/kernel/stream-lines.ts";

const TRANSLATED =
  "udp      17 29 src=10.244.1.9 dst=10.96.0.10 sport=20002 dport=53 [UNREPLIED] src=10.244.1.5 dst=10.244.1.9 sport=5300 dport=20002 mark=0 use=1";
const COUNTED =
  "udp      17 119 src=fd00::1 dst=fd00::10 sport=9 dport=53 packets=3 bytes=99 src=fd00::5 dst=fd00::1 sport=5300 dport=9 packets=2 bytes=70 [ASSURED] mark=16384 use=1";

function fakeTool(lines: readonly string[], stderr = "") {
  const calls: string[] = [];
  const stream = async function* (_path: string, args: readonly string[]) {
    calls.push(args.join(" "));
    yield* lines;
    if (stderr !== "") throw new AppError("HOST", "conntrack failed", { evidence: { stderr } });
  };
  return { tool: new Conntrack("conntrack", stream), calls };
}

describe("parseFlow", () => {
  test.each([
    [TRANSLATED, ["10.96.0.10", 53], ["10.244.1.5", 5300]],
    [COUNTED, ["fd00::10", 53], ["fd00::5", 5300]],
  ] as const)('reads "%s"', (line, [to, port], [from, fromPort]) => {
    expect(parseFlow(line)).toEqual({
      destination: { address: to, port },
      replySource: { address: from, port: fromPort },
    });
  });

  test.each(["", "conntrack v1.4.8 (conntrack-tools): 2 flow entries have been shown."])(
    "gives undefined for %j",
    (line) => {
      expect(parseFlow(line)).toBeUndefined();
    },
  );
});

describe("Conntrack", () => {
  test("lists UDP flows of each family, as an old conntrack lists IPv4 alone by itself", async () => {
    const { tool, calls } = fakeTool([TRANSLATED]);
    const flows = [];
    for await (const flow of tool.udpFlows()) flows.push(flow.destination.address);
    expect(flows).toEqual(["10.96.0.10", "10.96.0.10"]);
    expect(calls).toEqual(["-L -f ipv4 -p udp", "-L -f ipv6 -p udp"]);
  });

  test("deletes groups of flows, and counts the deleted ones by family", async () => {
    const { tool, calls } = fakeTool([TRANSLATED, COUNTED, COUNTED]);
    const deleted = await tool.deleteFlows([
      { destination: { address: "10.96.0.10", port: 53 }, replySource: { address: "10.244.1.5", port: 5300 } },
      { destination: { address: "fd00::10", port: 53 }, replySource: undefined },
    ]);
    expect(deleted).toEqual({ ip: 2, ip6: 4 });
    expect(calls).toEqual([
      "-D -f ipv4 -p udp --orig-dst 10.96.0.10 --orig-port-dst 53 --reply-src 10.244.1.5 --reply-port-src 5300",
      "-D -f ipv6 -p udp --orig-dst fd00::10 --orig-port-dst 53",
    ]);
  });

  test("takes flows that ended meanwhile for no failure, and anything else for one", async () => {
    const groups = [{ destination: { address: "10.96.0.10", port: 53 }, replySource: undefined }];
    const gone = fakeTool([], "conntrack v1.4.8 (conntrack-tools): 0 flow entries have been deleted.");
    expect(await gone.tool.deleteFlows(groups)).toEqual({ ip: 0, ip6: 0 });
    await expect(fakeTool([], "you must be root").tool.deleteFlows(groups)).rejects.toThrow("conntrack failed");
  });
});

describe("streamLines", () => {
  async function collect(path: string, args: readonly string[]): Promise<string[]> {
    const lines = [];
    for await (const line of streamLines(path, args)) lines.push(line);
    return lines;
  }

  test("gives the lines that a program prints", async () => {
    expect(await collect("printf", ["a\\nb b\\n"])).toEqual(["a", "b b"]);
  });

  test("leaves no timer, which would delay the exit of the process, if a program cannot be started", async () => {
    const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === "Timeout").length;
    const before = timers();
    for (let n = 0; n < 5; n++) await expect(collect("/no-such-directory/program", [])).rejects.toThrow();
    // A timer of another file in this process may begin or end meanwhile.
    expect(timers() - before).toBeLessThan(5);
  });

  test("throws an AppError with the program's words if it is missing or fails", async () => {
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
