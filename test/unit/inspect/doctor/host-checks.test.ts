import { describe, expect, test } from "vitest";
import { judgeBridges } from "../../../../src/inspect/doctor/bridge-check.ts";
import { judgeCapabilities } from "../../../../src/inspect/doctor/capability-check.ts";
import { worstLevel } from "../../../../src/inspect/doctor/diagnostic.ts";
import { judgeKernel, judgeModules } from "../../../../src/inspect/doctor/kernel-check.ts";
import { isAtLeast, judgeHostNfts, judgeNft } from "../../../../src/inspect/doctor/nft-check.ts";
import {
  judgeConntrackTable,
  judgeSettings,
  type Settings,
  type UsedFamilies,
} from "../../../../src/inspect/doctor/settings-check.ts";
import { judgeConntrackTool, judgeFamilies } from "../../../../src/inspect/doctor/support-check.ts";

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

describe("nft", () => {
  test("that has every feature is ok", () => {
    expect(judgeNft({ path: "nft", version: "nftables v1.1.3" })).toMatchObject({ level: "ok" });
  });

  test("that lacks one is a fault with its hint", () => {
    const problem = { message: "nft lacks maps", hint: "use another" };
    const finding = judgeNft({ path: "nft", version: "nftables v1.0.6", problem });
    expect(finding).toMatchObject({ level: "fault", found: "nft lacks maps", action: "use another" });
  });

  test.each([
    ["v1.1.3 (Commodore Bullmoose #4)", "v1.0.6 (Lester Gooch #5)", "ok", undefined],
    ["v1.1.3", "v0.9.8 (E.D.S.)", "warning", "it may crash when it lists"],
    ["v1.1.3", "v1.0.5", "warning", "it may crash when it lists"],
    ["v1.1.3", "v1.2.0", "ok", undefined],
    [undefined, "v1.1.3", "ok", undefined],
    ["v1.1.3", "something else", "ok", undefined],
  ])("ours of %s beside the host's %s is judged %s", (ours, version, level, means) => {
    const [finding] = judgeHostNfts(ours, [{ path: "/usr/sbin/nft", version }]);
    expect(finding?.level).toBe(level);
    expect(finding?.means).toEqual(means === undefined ? undefined : expect.stringContaining(means));
  });

  test("of the host is unknown in a pod", () => {
    expect(judgeHostNfts("v1.1.3", undefined)).toMatchObject([
      { level: "ok", found: expect.stringContaining("unknown"), action: expect.stringContaining("on the host") },
    ]);
  });

  test("alone on the host is ok", () => {
    expect(judgeHostNfts("v1.1.3", [])).toMatchObject([{ level: "ok" }]);
  });

  test.each([
    ["1.1.3", "1.1.2", true],
    ["1.1.2", "1.1.2", true],
    ["1.1.10", "1.1.9", true],
    ["1.2", "1.1.9", true],
    ["1.1", "1.1.1", false],
    ["6.18", "5.10", true],
    ["5.4", "5.10", false],
  ])("version %s is at least %s: %s", (version, least, expected) => {
    expect(isAtLeast(version, least)).toBe(expected);
  });
});

describe("the kernel", () => {
  test.each([
    ["6.18.44-cloud", "ok", undefined],
    ["6.1.0-25-amd64", "ok", expect.stringContaining("removed a moment later")],
    ["5.10.0-32-cloud-amd64", "ok", expect.stringContaining("removed a moment later")],
    ["5.4.0-100", "warning", expect.stringContaining("5.10")],
    [undefined, "warning", undefined],
  ])("of release %s is judged %s", (release, level, means) => {
    const finding = judgeKernel({ release, config: undefined });
    expect(finding.level).toBe(level);
    expect(finding.means).toEqual(means);
  });

  test("built without what IPv6 needs is a fault only where there is IPv6", () => {
    const kernel = { release: "6.12", config: CONFIG };
    expect(judgeModules(kernel, ["ip"], false).level).toBe("ok");
    const found = "built without CONFIG_NFT_FIB_IPV6";
    expect(judgeModules(kernel, ["ip", "ip6"], false)).toMatchObject({ level: "fault", found });
    expect(judgeModules(kernel, ["ip", "ip6"], true), "where nft finds it").toMatchObject({ level: "warning", found });
  });

  test("that does not tell how it was built is judged by nft alone", () => {
    expect(judgeModules({ release: "6.12", config: undefined }, ["ip"], true).level).toBe("ok");
  });

  test.each([
    [["ip", "ip6"], undefined],
    [["ip"], expect.stringContaining("IPv6 addresses of Services are not served")],
  ] as const)("with the families %o is ok", (families, means) => {
    expect(judgeFamilies(families)).toMatchObject({ level: "ok" });
    expect(judgeFamilies(families).means).toEqual(means);
  });
});

describe("capabilities", () => {
  test.each([
    ["Name:\tnode\nCapEff:\t000001ffffffffff\n", "ok"],
    ["CapEff:\t0000000000001000\n", "ok"],
    ["CapEff:\t0000000000000fff\n", "fault"],
    ["CapInh:\t000001ffffffffff\nCapEff:\t0000000000000000\n", "fault"],
    [undefined, "warning"],
  ])("of %o are judged %s", (status, level) => {
    expect(judgeCapabilities(status).level).toBe(level);
  });
});

describe("settings", () => {
  const ip = (name: string, value: number) => new Map([[`/proc/sys/net/ipv4/${name}`, value]]);

  test.each([
    ["ip_forward", 0, "ip-forward", "fault"],
    ["ip_forward", 1, "ip-forward", "ok"],
    ["conf/all/route_localnet", 1, "route-localnet", "warning"],
    ["conf/all/route_localnet", 0, "route-localnet", "ok"],
    ["conf/all/rp_filter", 1, "rp-filter", "ok"],
  ])("net.ipv4.%s=%i make %s %s", (name, value, check, level) => {
    expect(judgeSettings(ip(name, value), ["ip"], undefined)).toMatchObject([{ check, level }]);
  });

  test("with a strict rp_filter explain what it means, and with a loose one nothing", () => {
    expect(judgeSettings(ip("conf/all/rp_filter", 1), ["ip"], ["ip"])[0]?.means).toContain("strict");
    expect(judgeSettings(ip("conf/all/rp_filter", 2), ["ip"], ["ip"])[0]?.means).toBeUndefined();
  });

  test("of IPv6 are judged only where there is IPv6", () => {
    const settings = new Map([["/proc/sys/net/ipv6/conf/all/forwarding", 0]]);
    expect(judgeSettings(settings, ["ip"], undefined)).toEqual([]);
    expect(judgeSettings(settings, ["ip", "ip6"], undefined)).toMatchObject([
      { check: "ipv6-forward", level: "warning" },
    ]);
  });

  test.each<[string, UsedFamilies, string, string]>([
    ["is not known to have", undefined, "fault", "warning"],
    ["has both", ["ip", "ip6"], "fault", "fault"],
    ["has IPv4 alone", ["ip"], "fault", "ok"],
    ["has IPv6 alone", ["ip6"], "ok", "fault"],
  ])("that forward nothing are judged by the families that the cluster %s", (_, used, ip4, ip6) => {
    const settings = new Map([
      ["/proc/sys/net/ipv4/ip_forward", 0],
      ["/proc/sys/net/ipv6/conf/all/forwarding", 0],
    ]);
    expect(judgeSettings(settings, ["ip", "ip6"], used).map(({ level }) => level)).toEqual([ip4, ip6]);
  });

  test.each([
    [undefined, 0, 131_072, "ok"],
    [0, 300_000, 131_072, "ok"],
    [262_144, 10, 131_072, "ok"],
    [65_536, 10, 131_072, "warning"],
    [65_536, 10, 0, "ok"],
    [1000, 800, 0, "warning"],
    [1000, 799, 0, "ok"],
    [1000, 950, 0, "fault"],
  ])("with a conntrack table for %o with %i entries, %i wanted, are judged %s", (max, count, wanted, level) => {
    const path = "/proc/sys/net/netfilter/nf_conntrack_";
    const settings = new Map(max === undefined ? [] : [[`${path}max`, max] as const, [`${path}count`, count] as const]);
    expect(judgeConntrackTable(settings, wanted).level).toBe(level);
  });

  test("a missing conntrack program is judged a warning", () => {
    expect(judgeConntrackTool(undefined).level).toBe("warning");
    expect(judgeConntrackTool("conntrack v1.4.8")).toMatchObject({ level: "ok", found: "conntrack v1.4.8" });
  });
});

describe("pods on a bridge", () => {
  const interfaces = new Set(["lo", "eth0", "cni0"]);
  const bridge = (ip: number, ip6: number): Settings =>
    new Map([
      ["/proc/sys/net/bridge/bridge-nf-call-iptables", ip],
      ["/proc/sys/net/bridge/bridge-nf-call-ip6tables", ip6],
    ]);

  test.each<[string, Settings, UsedFamilies, string, string]>([
    ["whose packets pass the rules are ok", bridge(1, 1), ["ip", "ip6"], "ok", "cni0, whose packets pass the rules"],
    ["without br_netfilter are a warning", new Map(), ["ip"], "warning", "the module br_netfilter is not loaded"],
    ["past the rules are a warning", bridge(0, 1), undefined, "warning", "bridge-nf-call-iptables is not 1"],
    ["past the rules of IPv6 are a warning", bridge(1, 0), ["ip6"], "warning", "bridge-nf-call-ip6tables is not 1"],
    ["past the rules of IPv6, in a cluster of IPv4, are ok", bridge(1, 0), ["ip"], "ok", "cni0"],
    ["past the rules of IPv6, in an unknown cluster, are ok", bridge(1, 0), undefined, "ok", "cni0"],
  ])("%s", (_, settings, used, level, text) => {
    expect(judgeBridges(interfaces, settings, used)).toMatchObject([{ level, found: expect.stringContaining(text) }]);
  });

  test("of Docker and of virtual machines are not judged", () => {
    expect(judgeBridges(new Set(["docker0", "virbr0"]), new Map(), ["ip"])).toEqual([]);
  });
});
