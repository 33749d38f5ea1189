import { describe, expect, test } from "vitest";
import type { CheckName, HostFinding } from "../../../../src/inspect/doctor/finding.ts";
import {
  judgeSettings,
  type SettingsFacts,
  type UsedFamilies,
} from "../../../../src/inspect/doctor/settings-check.ts";

/** Returns the diagnostics for a host with only these known facts, of one check if given. */
function judged(facts: Partial<SettingsFacts>, check?: CheckName): HostFinding[] {
  const all = judgeSettings({
    families: ["ip", "ip6"],
    settings: new Map(),
    interfaces: new Set(),
    used: undefined,
    wantedConnections: 0,
    ...facts,
  });
  return all.filter((one) =>
    check === undefined ? !one.check.startsWith("conntrack") : one.check === check,
  );
}

describe("settings", () => {
  const ip = (name: string, value: number) => new Map([[`/proc/sys/net/ipv4/${name}`, value]]);

  test.each([
    ["ip_forward", 0, "ip-forward", "fault"],
    ["ip_forward", 1, "ip-forward", "ok"],
    ["conf/all/route_localnet", 1, "route-localnet", "warning"],
    ["conf/all/route_localnet", 0, "route-localnet", "ok"],
    ["conf/all/rp_filter", 1, "rp-filter", "ok"],
  ])("net.ipv4.%s=%i make %s %s", (name, value, check, level) => {
    expect(judged({ settings: ip(name, value), families: ["ip"] })).toMatchObject([{ check, level }]);
  });

  test("with a strict rp_filter explain its effect, and with a loose one report nothing", () => {
    expect(judged({ settings: ip("conf/all/rp_filter", 1), used: ["ip"] })[0]?.means).toContain("strict");
    expect(judged({ settings: ip("conf/all/rp_filter", 2), used: ["ip"] })[0]?.means).toBeUndefined();
  });

  test("of IPv6 are judged only if there is IPv6", () => {
    const settings = new Map([["/proc/sys/net/ipv6/conf/all/forwarding", 0]]);
    expect(judged({ settings, families: ["ip"] })).toEqual([]);
    expect(judged({ settings })).toMatchObject([{ check: "ipv6-forward", level: "warning" }]);
  });

  test.each<[string, UsedFamilies, string, string]>([
    ["has unknown families", undefined, "fault", "warning"],
    ["has both families", ["ip", "ip6"], "fault", "fault"],
    ["has only IPv4", ["ip"], "fault", "ok"],
    ["has only IPv6", ["ip6"], "ok", "fault"],
  ])("that disable forwarding are judged by the cluster, which %s", (_, used, ip4, ip6) => {
    const settings = new Map([
      ["/proc/sys/net/ipv4/ip_forward", 0],
      ["/proc/sys/net/ipv6/conf/all/forwarding", 0],
    ]);
    expect(judged({ settings, used }).map(({ level }) => level)).toEqual([ip4, ip6]);
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
  ])(
    "with a conntrack table for %o with %i entries, %i wanted, are judged %s",
    (max, count, wanted, level) => {
      const path = "/proc/sys/net/netfilter/nf_conntrack_";
      const settings = new Map(
        max === undefined ? [] : [[`${path}max`, max] as const, [`${path}count`, count] as const],
      );
      expect(judged({ settings, wantedConnections: wanted }, "conntrack-table")).toMatchObject([{ level }]);
    },
  );
});

describe("pods on a bridge", () => {
  const interfaces = new Set(["lo", "eth0", "cni0"]);
  const bridge = (ip: number, ip6: number): SettingsFacts["settings"] =>
    new Map([
      ["/proc/sys/net/bridge/bridge-nf-call-iptables", ip],
      ["/proc/sys/net/bridge/bridge-nf-call-ip6tables", ip6],
    ]);

  test.each<[string, SettingsFacts["settings"], UsedFamilies, string, string]>([
    [
      "whose packets pass the rules are ok",
      bridge(1, 1),
      ["ip", "ip6"],
      "ok",
      "cni0, whose packets pass the rules",
    ],
    [
      "without br_netfilter are a warning",
      new Map(),
      ["ip"],
      "warning",
      "the module br_netfilter is not loaded",
    ],
    [
      "whose packets bypass the rules are a warning",
      bridge(0, 1),
      undefined,
      "warning",
      "bridge-nf-call-iptables is not 1",
    ],
    [
      "whose packets bypass the IPv6 rules are a warning",
      bridge(1, 0),
      ["ip6"],
      "warning",
      "bridge-nf-call-ip6tables is not 1",
    ],
    ["whose packets bypass the IPv6 rules, in an IPv4 cluster, are ok", bridge(1, 0), ["ip"], "ok", "cni0"],
    [
      "whose packets bypass the IPv6 rules, in an unknown cluster, are ok",
      bridge(1, 0),
      undefined,
      "ok",
      "cni0",
    ],
  ])("%s", (_, settings, used, level, text) => {
    expect(judged({ interfaces, settings, used }, "bridge-netfilter")).toMatchObject([
      { level, found: expect.stringContaining(text) },
    ]);
  });

  test("of Docker and of virtual machines are not judged", () => {
    expect(judged({ interfaces: new Set(["docker0", "virbr0"]), used: ["ip"] })).toEqual([]);
  });
});
