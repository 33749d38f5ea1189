import { describe, expect, test } from "vitest";
import { interfaceReader } from "../../../src/kernel/interfaces.ts";
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

describe("the interfaces with a fast path", () => {
  test("are those of Ethernet, sorted, without ports of bridges and bonds, tunnels and loopback", async () => {
    const files = filesWith(["lo", "eth0", "cni0", "veth1", "eth1", "wg0", "bond0"], {
      "/sys/class/net/veth1/brport/state": "3\n",
      "/sys/class/net/eth1/bonding_slave/state": "active\n",
    });
    expect(await interfaceReader(files, [])()).toEqual(["bond0", "cni0", "eth0"]);
  });

  test("are those of the patterns, of whatever kind, but never loopback", async () => {
    const files = filesWith(["lo", "eth0", "eth0.7", "wg0", "veth1"]);
    expect(await interfaceReader(files, ["eth0", "wg*"])()).toEqual(["eth0", "wg0"]);
    expect(await interfaceReader(files, ["*"])()).toEqual(["eth0", "eth0.7", "veth1", "wg0"]);
  });

  test("come and go", async () => {
    const files = filesWith(["eth0"]);
    const read = interfaceReader(files, []);
    expect(await read()).toEqual(["eth0"]);
    files.texts.set("/proc/net/dev", HEADINGS + line("veth1"));
    files.texts.set("/sys/class/net/veth1/type", "1\n");
    expect(await read()).toEqual(["veth1"]);
  });

  test("cannot be read where /proc does not tell", async () => {
    await expect(interfaceReader(new FakeHostFiles({}), [])()).rejects.toThrow("ENOENT");
  });
});
