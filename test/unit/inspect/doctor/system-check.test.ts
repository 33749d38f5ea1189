import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { FEATURES } from "../../../../src/features/registry.ts";
import type { HostChain } from "../../../../src/features/seam/feature.ts";
import { type CheckName, type HostFinding, worstLevel } from "../../../../src/inspect/doctor/finding.ts";
import {
  isAtLeast,
  judgeFeatures,
  judgeSystem,
  type SystemFacts,
} from "../../../../src/inspect/doctor/system-check.ts";

/** Returns the diagnostics of one check, for a host that lacks only these. */
function judged(check: CheckName, facts: Partial<SystemFacts>): HostFinding[] {
  const all = judgeSystem({
    families: ["ip", "ip6"],
    nft: { path: "nft", version: "v1.1.3", problem: undefined },
    hostNfts: [],
    kernel: { release: undefined, config: undefined, isBigEndian: false },
    processStatus: undefined,
    socatVersion: undefined,
    used: undefined,
    ...facts,
  });
  return all.filter((one) => one.check === check);
}

const nft = (version: string | undefined) => ({ path: "nft", version, problem: undefined });

const CONFIG = `CONFIG_NF_TABLES=y
CONFIG_NF_CONNTRACK=m
CONFIG_NF_CT_NETLINK=m
CONFIG_NFT_CT=m
CONFIG_NFT_NAT=m
CONFIG_NFT_MASQ=m
CONFIG_NFT_NUMGEN=m
CONFIG_NFT_REJECT=m
CONFIG_NFT_FIB_IPV4=m
# CONFIG_NFT_FIB_IPV6 is not set
`;

test("the schema of the output contains every check", () => {
  const text = (path: string) => readFileSync(new URL(`../../../../${path}`, import.meta.url), "utf8");
  const union = (type: string, path: string) =>
    [...(new RegExp(`type ${type} =([^;]*);`).exec(text(path))?.[1] ?? "").matchAll(/"(.*?)"/g)].map(
      ([, name]) => name,
    );
  const { properties } = JSON.parse(text("schemas/doctor.schema.json")).properties.findings.items;
  const ofFeatures = FEATURES.flatMap(({ name, ruleset, ipvs }) => [
    ...(ruleset?.needs === undefined ? [] : [name]),
    ...(ipvs === undefined ? [] : [ipvs.check]),
  ]);
  const names = [
    ...union("CheckName", "src/inspect/doctor/finding.ts"),
    ...union("ProblemKind", "src/socket/daemon-protocol.ts"),
  ];
  expect(properties.check.enum.toSorted()).toEqual([...names, ...ofFeatures].sort());
});

describe("the worst level", () => {
  test.each([
    [[], "ok"],
    [["ok"], "ok"],
    [["ok", "warning", "ok"], "warning"],
    [["fault", "warning"], "fault"],
  ] as const)("of %o is %s", (levels, worst) => {
    expect(worstLevel(levels.map((level) => ({ level })))).toBe(worst);
  });
});

describe("socat", () => {
  test("that is missing is a fault, because nothing else reports changes", () => {
    expect(judged("socat", {})).toMatchObject([{ level: "fault", action: "install socat" }]);
    expect(judged("socat", { socatVersion: "1.8.0.3" })).toEqual([
      { check: "socat", level: "ok", found: "socat 1.8.0.3" },
    ]);
  });
});

describe("nft", () => {
  test("that has every feature is ok", () => {
    expect(judged("nft", { nft: nft("nftables v1.1.3") })).toMatchObject([{ level: "ok" }]);
  });

  test("that lacks a feature is a fault with its hint", () => {
    const problem = { message: "nft lacks maps", hint: "use another" };
    expect(judged("nft", { nft: { ...nft("nftables v1.0.6"), problem } })).toMatchObject([
      { level: "fault", found: "nft lacks maps", action: "use another" },
    ]);
  });

  test.each([
    ["v1.1.3 (Commodore Bullmoose #4)", "v1.0.6 (Lester Gooch #5)", "ok", undefined],
    ["v1.1.3", "v0.9.8 (E.D.S.)", "warning", "it may crash when it lists"],
    ["v1.1.3", "v1.0.5", "warning", "it may crash when it lists"],
    ["v1.1.3", "v1.2.0", "ok", undefined],
    [undefined, "v1.1.3", "ok", undefined],
    ["v1.1.3", "something else", "ok", undefined],
  ])("ours of %s beside the host's %s is judged %s", (ours, version, level, means) => {
    const [finding] = judged("host-nft", { nft: nft(ours), hostNfts: [{ path: "/usr/sbin/nft", version }] });
    expect(finding?.level).toBe(level);
    expect(finding?.means).toEqual(means === undefined ? undefined : expect.stringContaining(means));
  });

  test("of the host is unknown in a pod", () => {
    expect(judged("host-nft", { hostNfts: undefined })).toMatchObject([
      {
        level: "ok",
        found: expect.stringContaining("unknown"),
        action: expect.stringContaining("on the host"),
      },
    ]);
  });

  test("that is the only one on the host is ok", () => {
    expect(judged("host-nft", { hostNfts: [] })).toMatchObject([{ level: "ok" }]);
  });

  test.each([
    ["1.1.3", "1.1.2", true],
    ["1.1.2", "1.1.2", true],
    ["1.1.10", "1.1.9", true],
    ["1.2", "1.1.9", true],
    ["1.1", "1.1.1", false],
    ["1.1", "1.1.0", true],
    ["1", "1.0.0", true],
    ["6.18", "5.10", true],
    ["5.4", "5.10", false],
  ])("version %s is at least %s: %s", (version, least, expected) => {
    expect(isAtLeast(version, least)).toBe(expected);
  });
});

describe("the kernel", () => {
  test.each([
    ["6.18.44-cloud", "ok", undefined],
    ["6.1.0-25-amd64", "ok", expect.stringContaining("deleted a moment later")],
    ["5.10.0-32-cloud-amd64", "ok", expect.stringContaining("deleted a moment later")],
    ["5.4.0-100", "warning", expect.stringContaining("5.10")],
    [undefined, "warning", undefined],
  ])("of release %s is judged %s", (release, level, means) => {
    const [finding] = judged("kernel", { kernel: { release, config: undefined, isBigEndian: false } });
    expect(finding?.level).toBe(level);
    expect(finding?.means).toEqual(means);
  });

  test("of a big-endian machine is a warning, because none was tested", () => {
    const kernel = { release: "6.18.44", config: undefined, isBigEndian: true };
    expect(judged("kernel", { kernel })).toMatchObject([{ level: "warning" }]);
  });

  test.each([
    [["ip"], "ok"],
    [["ip", "ip6"], "fault"],
  ] as const)("without IPv6, in a cluster with the families %o, is judged %s", (used, level) => {
    expect(judged("ipv6", { families: ["ip"], used })).toMatchObject([{ level }]);
  });

  test("built without what IPv6 needs is a fault only if there is IPv6", () => {
    const kernel = { release: "6.12", config: CONFIG, isBigEndian: false };
    const failing = { ...nft("v1.1.3"), problem: { message: "no", hint: undefined } };
    const found = "built without CONFIG_NFT_FIB_IPV6";
    expect(judged("kernel-modules", { kernel, nft: failing, families: ["ip"] })).toMatchObject([
      { level: "ok" },
    ]);
    expect(judged("kernel-modules", { kernel, nft: failing })).toMatchObject([{ level: "fault", found }]);
    expect(judged("kernel-modules", { kernel }), "where nft finds it").toMatchObject([
      { level: "warning", found },
    ]);
  });

  test("without known build options is judged by nft alone", () => {
    expect(
      judged("kernel-modules", { kernel: { release: "6.12", config: undefined, isBigEndian: false } }),
    ).toMatchObject([{ level: "ok" }]);
  });

  test.each([
    [["ip", "ip6"], undefined],
    [["ip"], expect.stringContaining("IPv6 addresses of Services are not served")],
  ] as const)("with the families %o is ok", (families, means) => {
    const [finding] = judged("ipv6", { families });
    expect(finding).toMatchObject({ level: "ok" });
    expect(finding?.means).toEqual(means);
  });
});

describe("capabilities", () => {
  test.each([
    ["Name:\tnode\nCapEff:\t000001ffffffffff\n", "ok"],
    ["CapEff:\t0000000000001000\n", "ok"],
    ["CapEff:\t0000000000000fff\n", "fault"],
    ["CapInh:\t000001ffffffffff\nCapEff:\t0000000000000000\n", "fault"],
    [undefined, "warning"],
  ])("of %o are judged %s", (processStatus, level) => {
    expect(judged("capabilities", { processStatus })).toMatchObject([{ level }]);
  });
});

test.each([
  ["7.0.3", ["connection-timeouts warning"]],
  ["6.18.0-1-amd64", ["connection-timeouts warning"]],
  ["7.1.0", []],
] as const)("connection timeouts on Linux %s are judged %j", (release, levels) => {
  const kernel = { release, config: undefined, isBigEndian: false };
  const features = FEATURES.filter(({ chainCheck }) => chainCheck === undefined);
  const findings = judgeFeatures({ kernel, chains: [] }, features);
  expect(findings.map(({ check, level }) => `${check} ${level}`)).toEqual(levels);
});

test("a feature judges the host's chains, and misses the result if they cannot be listed", () => {
  const kernel = { release: undefined, config: undefined, isBigEndian: false };
  const judge = (chains: readonly HostChain[]) =>
    ({ level: "ok", found: `${chains.length} chains` }) as const;
  const feature = { name: "mirror", chainCheck: { unlisted: "mirrors are not reported", judge } };
  expect(judgeFeatures({ kernel, chains: [] }, [feature])).toEqual([
    { check: "mirror", level: "ok", found: "0 chains" },
  ]);
  expect(judgeFeatures({ kernel, chains: undefined }, [feature])).toMatchObject([
    { check: "mirror", level: "warning", means: "mirrors are not reported" },
  ]);
});
