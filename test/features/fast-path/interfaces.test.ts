import { describe, expect, test } from "vitest";
import { interfaceReader } from "../../../src/features/fast-path/interfaces.ts";
import { FakeHostFiles } from "../../support/fake-host-files.ts";

const HEADINGS = "Inter-|   Receive\n face |bytes\n";
const line = (name: string) => `${name.padStart(6)}: 1 2 3 4\n`;

function filesWith(names: readonly string[], details: Readonly<Record<string, string>> = {}): FakeHostFiles {
  const types = names.map((name): [string, string] => [
    `/sys/class/net/${name}/type`,
    name === "wg0" ? "65534\n" : "1\n",
  ]);
  return new FakeHostFiles({
    "/proc/net/dev": HEADINGS + names.map(line).join(""),
    ...Object.fromEntries(types),
    ...details,
  });
}

const reader = (files: FakeHostFiles, fastPathInterfaces?: readonly string[]) =>
  interfaceReader({ files, settings: { fastPathInterfaces } });

describe("the interfaces with a fast path", () => {
  test("are those of Ethernet, sorted, without ports of bridges and bonds, tunnels and loopback", async () => {
    const files = filesWith(["lo", "eth0", "cni0", "veth1", "eth1", "wg0", "bond0"], {
      "/sys/class/net/veth1/brport/state": "3\n",
      "/sys/class/net/eth1/bonding_slave/state": "active\n",
    });
    expect((await reader(files)()).devices).toEqual(["bond0", "cni0", "eth0"]);
  });

  test("are those that match the patterns, of any kind, but never loopback", async () => {
    const files = filesWith(["lo", "eth0", "eth0.7", "wg0", "veth1"]);
    expect((await reader(files, ["eth0", "wg*"])()).devices).toEqual(["eth0", "wg0"]);
    expect((await reader(files, ["*"])()).devices).toEqual(["eth0", "eth0.7", "veth1", "wg0"]);
  });

  test("are read again when interfaces are added or removed", async () => {
    const files = filesWith(["eth0"]);
    const read = reader(files);
    expect((await read()).devices).toEqual(["eth0"]);
    files.texts.set("/proc/net/dev", HEADINGS + line("veth1"));
    files.texts.set("/sys/class/net/veth1/type", "1\n");
    expect((await read()).devices).toEqual(["veth1"]);
  });

  test("are those of networks and hardware before those of single pods if a flow table cannot hold all", async () => {
    const pods = Array.from({ length: 300 }, (_, n) => `cali${1000 + n}`);
    const others = ["eth0", "eth1", "ens5", "flannel.1", "vxlan6"];
    const none = "00000000";
    const ip = (name: string, to: string, mask: string) => `${name} ${to} ${none} 0001 0 0 0 ${mask} 0 0 0\n`;
    const ip6 = (name: string, to: string, length: string) =>
      `${to} ${length} ${"0".repeat(32)} 00 ${"0".repeat(32)} 00000100 00000001 00000000 00000001 ${name}\n`;
    const files = filesWith([...pods, ...others], {
      "/proc/net/route":
        "Iface Destination Gateway Flags RefCnt Use Metric Mask\n" +
        [ip("eth0", none, none), ip("flannel.1", "0000F40A", "0000FFFF")].join("") +
        pods.map((name) => ip(name, "0101F40A", "FFFFFFFF")).join(""),
      "/proc/net/ipv6_route":
        ip6("vxlan6", `fd00${"0".repeat(28)}`, "40") +
        [...pods, ...others]
          .map((name) => ip6(name, `fe80${"0".repeat(28)}`, "40") + ip6(name, `ff00${"0".repeat(28)}`, "08"))
          .join(""),
      // Its routes are in a table of policy routing.
      "/sys/class/net/ens5/device/uevent": "DRIVER=ena\n",
    });
    const { devices, excluded } = await reader(files)();
    expect([devices.length, excluded.length]).toEqual([256, 49]);
    expect(devices.filter((name) => !name.startsWith("cali"))).toEqual([
      "ens5",
      "eth0",
      "flannel.1",
      "vxlan6",
    ]);
    expect(excluded.at(-1), "of neither").toBe("eth1");
  });

  test("cannot be read without /proc", async () => {
    await expect(reader(new FakeHostFiles({}))()).rejects.toThrow("ENOENT");
  });
});
