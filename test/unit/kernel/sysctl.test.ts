import { describe, expect, test } from "vitest";
import type { ConntrackSettings } from "../../../src/kernel/sysctl.ts";
import { applySettings, conntrackSettings, setOomScore } from "../../../src/kernel/sysctl.ts";
import { FakeHostFiles } from "../../support/fake-host-files.ts";
import { memoryLogger } from "../../support/memory-logger.ts";

const NOTHING: ConntrackSettings = {
  maxPerCore: 0,
  min: 131_072,
  tcpEstablishedTimeoutMs: 0,
  tcpCloseWaitTimeoutMs: 0,
  udpTimeoutMs: 0,
  udpStreamTimeoutMs: 0,
  tcpBeLiberal: false,
};
const PROC = "/proc/sys/net/netfilter/nf_conntrack_";
const HASHSIZE = "/sys/module/nf_conntrack/parameters/hashsize";

describe("conntrackSettings", () => {
  test("is empty when every option is 0", () => {
    expect(conntrackSettings(NOTHING, 64)).toEqual([]);
  });

  test.each([
    [32_768, 131_072, 2, 131_072],
    [32_768, 131_072, 8, 262_144],
    [32_768, 131_072, 256, 1_048_576],
    [32_768, 0, 1, 32_768],
  ])("of %i per core and at least %i on %i cores is %i", (maxPerCore, min, cores, max) => {
    expect(conntrackSettings({ ...NOTHING, maxPerCore, min }, cores)).toEqual([
      { path: `${PROC}max`, value: max, onlyRaise: true },
      { path: HASHSIZE, value: max / 4, onlyRaise: true },
    ]);
  });

  test("has timeouts in seconds, without those that are 0", () => {
    const options = {
      ...NOTHING,
      tcpEstablishedTimeoutMs: 86_400_000,
      tcpCloseWaitTimeoutMs: 3_600_000,
      udpTimeoutMs: 30_500,
      udpStreamTimeoutMs: 120_000,
      tcpBeLiberal: true,
    };
    expect(conntrackSettings(options, 1).map(({ path, value }) => [path, value])).toEqual([
      [`${PROC}tcp_timeout_established`, 86_400],
      [`${PROC}tcp_timeout_close_wait`, 3600],
      [`${PROC}tcp_be_liberal`, 1],
      [`${PROC}udp_timeout`, 30],
      [`${PROC}udp_timeout_stream`, 120],
    ]);
  });
});

describe("applySettings", () => {
  const raise = { path: "/max", value: 100, onlyRaise: true };
  const set = { path: "/timeout", value: 100, onlyRaise: false };

  test.each([
    ["50\n", "100", "200\n", "100"],
    ["100\n", "100\n", "100\n", "100\n"],
    ["200\n", "200\n", "50\n", "100"],
  ])(
    "turns %j into %j where it may only raise, and %j into %j where it sets",
    async (max, maxAfter, timeout, timeoutAfter) => {
      const files = new FakeHostFiles({ "/max": max, "/timeout": timeout });
      const logger = memoryLogger();
      await applySettings(files, [raise, set], logger);
      expect([files.texts.get("/max"), files.texts.get("/timeout")]).toEqual([maxAfter, timeoutAfter]);
      expect(logger.lines.some(({ level }) => level === "warn")).toBe(false);
    },
  );

  test("sets the out-of-memory score, which may be negative, and says which right it needs", async () => {
    const path = "/proc/self/oom_score_adj";
    const files = new FakeHostFiles({ [path]: "0\n" });
    await setOomScore(files, -998, memoryLogger());
    expect(files.texts.get(path)).toBe("-998");
    const refusing = new FakeHostFiles({ [path]: "-997\n" }, { [path]: "EACCES" });
    const logger = memoryLogger();
    await setOomScore(refusing, -997, logger);
    expect(logger.lines).toEqual([]);
    await setOomScore(refusing, -998, logger);
    const hint = "lowering it needs the capability SYS_RESOURCE";
    expect(logger.lines).toMatchObject([{ level: "warn", fields: { error: "EACCES", hint } }]);
  });

  test("warns once for each reason why settings cannot be changed, and changes the rest", async () => {
    const files = new FakeHostFiles(
      { "/max": "1", "/timeout": "1", "/last": "1" },
      { "/max": "EROFS", "/timeout": "EROFS" },
    );
    const logger = memoryLogger();
    const settings = [raise, set, { ...set, path: "/absent" }, { ...set, path: "/last" }];
    await applySettings(files, settings, logger);
    expect(files.texts.get("/last")).toBe("100");
    expect(logger.lines.filter(({ level }) => level === "warn").map(({ fields }) => fields)).toMatchObject([
      {
        settings: ["/max=100", "/timeout=100"],
        error: "EROFS",
        hint: expect.stringMatching(/^run privileged .* to 0$/),
      },
      { settings: ["/absent=100"], error: "ENOENT", hint: expect.stringContaining("nf_conntrack") },
    ]);
  });
});
