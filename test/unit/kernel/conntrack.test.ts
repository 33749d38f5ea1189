import { readdirSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { describe, expect, test } from "vitest";
import { AppError } from "../../../src/base/errors.ts";
import { Conntrack, parseFlow } from "../../../src/kernel/conntrack.ts";
import { streamLines } from "../../../src/kernel/stream-lines.ts";

const TRANSLATED =
  "udp      17 29 src=10.244.1.9 dst=10.96.0.10 sport=20002 dport=53 [UNREPLIED] src=10.244.1.5 dst=10.244.1.9 sport=5300 dport=20002 mark=0 use=1";
const COUNTED =
  "udp      17 119 src=fd00::1 dst=fd00::10 sport=9 dport=53 packets=3 bytes=99 src=fd00::5 dst=fd00::1 sport=5300 dport=9 packets=2 bytes=70 [ASSURED] mark=16384 use=1";

const OFFLOADED = TRANSLATED.replace("17 29", "17").replace("[UNREPLIED] ", "").replace("mark", "[OFFLOAD] mark");
const ZONED = TRANSLATED.replace("mark=0", "mark=0 zone=7");

function fakeTool(lines: readonly string[], stderr = "") {
  const calls: string[] = [];
  const stream = async function* (_path: string, args: readonly string[]) {
    const [option, file = ""] = args;
    calls.push(option === "--load-file" ? readFileSync(file, "utf8") : args.join(" "));
    yield* lines;
    if (stderr !== "") throw new AppError("HOST", "conntrack failed", { evidence: { stderr } });
  };
  return { tool: new Conntrack("conntrack", stream), calls };
}

describe("parseFlow", () => {
  test.each([
    [TRANSLATED, ["10.244.1.9", 20002], ["10.96.0.10", 53], ["10.244.1.5", 5300], undefined],
    [COUNTED, ["fd00::1", 9], ["fd00::10", 53], ["fd00::5", 5300], undefined],
    [ZONED, ["10.244.1.9", 20002], ["10.96.0.10", 53], ["10.244.1.5", 5300], 7],
    [OFFLOADED, ["10.244.1.9", 20002], ["10.96.0.10", 53], ["10.244.1.5", 5300], undefined],
  ] as const)('reads "%s"', (line, [client, clientPort], [to, port], [from, fromPort], zone) => {
    expect(parseFlow(line)).toEqual({
      client: { address: client, port: clientPort },
      destination: { address: to, port },
      replySource: { address: from, port: fromPort },
      zone,
      isOffloaded: line === OFFLOADED,
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

  test("lists the flows after it gave offloaded ones no time to live, for the kernel to delete them", async () => {
    const { tool, calls } = fakeTool([]);
    await tool.deleteFlows([OFFLOADED].flatMap((line) => parseFlow(line) ?? []));
    expect(calls.slice(1)).toEqual(["-L -f ipv4 -p udp", "-L -f ipv6 -p udp"]);
  });

  const flows = [TRANSLATED, COUNTED, ZONED].flatMap((line) => parseFlow(line) ?? []);

  test("deletes flows by one process, and counts them by family", async () => {
    const { tool, calls } = fakeTool([]);
    expect(await tool.deleteFlows(flows)).toEqual({ ip: 2, ip6: 1 });
    expect(calls).toEqual([
      [
        "-A -p udp -s 10.244.1.9 --sport 20002 -d 10.96.0.10 --dport 53 -t 0",
        "-A -p udp -s fd00::1 --sport 9 -d fd00::10 --dport 53 -t 0",
        "-A -p udp -s 10.244.1.9 --sport 20002 -d 10.96.0.10 --dport 53 -w 7 -t 0",
        "",
      ].join("\n"),
    ]);
  });

  test("throws what conntrack says when it cannot delete flows, and leaves no file", async () => {
    const left = () => readdirSync(tmpdir()).filter((name) => name.startsWith("nft-proxy-flows-"));
    const before = left();
    await expect(fakeTool([], "you must be root").tool.deleteFlows(flows)).rejects.toThrow("conntrack failed");
    expect(left()).toEqual(before);
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
