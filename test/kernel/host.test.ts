import { networkInterfaces } from "node:os";
import { execaSync } from "execa";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { hostAddresses } from "../../src/kernel/addresses.ts";
import { hostFamilies, hostFiles, onlineCores } from "../../src/kernel/host.ts";
import { applySettings } from "../../src/kernel/sysctl.ts";
import { memoryLogger } from "../support/memory-logger.ts";

function ip(...args: readonly string[]): string {
  return execaSync("ip", args).stdout;
}

describe("the host", () => {
  beforeAll(() => {
    // The settings exist only once something uses connection tracking.
    execaSync("nft", ["-f", "-"], {
      input: "table ip host-test { chain in { type filter hook input priority 0; ct state new accept; }; }",
    });
    ip("link", "add", "host-a", "type", "veth", "peer", "name", "host-b");
    ip("addr", "add", "198.51.100.1/24", "dev", "host-a");
    ip("addr", "add", "198.51.100.2/24", "dev", "host-a");
    ip("addr", "add", "203.0.113.9/32", "dev", "lo");
    ip("addr", "add", "fd00:51::1/64", "dev", "host-a", "nodad");
    // The interface is up without a carrier, because the other end is down.
    ip("link", "set", "host-a", "up");
    ip("route", "add", "local", "203.0.113.77/32", "dev", "lo");
  });

  afterAll(() => {
    ip("link", "del", "host-a");
    ip("route", "del", "local", "203.0.113.77/32", "dev", "lo");
    ip("addr", "del", "203.0.113.9/32", "dev", "lo");
    execaSync("nft", ["delete table ip host-test"]);
  });

  test("reports secondary addresses, loopback addresses and those of an interface without a carrier", async () => {
    const byNode = Object.values(networkInterfaces()).flatMap((list) =>
      (list ?? []).map(({ address }) => address),
    );
    expect(byNode).not.toContain("198.51.100.1");
    // There may be more interfaces: the kernel removes the links of a closed lab only after a while.
    const own = ["127.0.0.1", "198.51.100.1", "198.51.100.2", "203.0.113.9"];
    const { local } = await hostAddresses(hostFiles);
    expect(local).toEqual(expect.arrayContaining([...own, "::1", "fd00:51::1"]));
  });

  test("distinguishes addresses of interfaces, with or without a carrier, from local routes", async () => {
    const { local, addresses } = await hostAddresses(hostFiles);
    expect(local).toContain("203.0.113.77");
    expect(addresses.ip).toEqual(
      expect.arrayContaining(["127.0.0.1", "198.51.100.1", "198.51.100.2", "203.0.113.9"]),
    );
    expect(addresses.ip).not.toContain("203.0.113.77");
    expect(addresses.ip6).toEqual(expect.arrayContaining(["::1", "fd00:51::1"]));
  });

  test("reports both families and the number of cores", async () => {
    expect(await hostFamilies(hostFiles)).toEqual(["ip", "ip6"]);
    expect(await onlineCores(hostFiles)).toBeGreaterThan(0);
  });

  test("changes the settings that it may change, and warns of the others", async () => {
    const netfilter = "/proc/sys/net/netfilter";
    const timeout = `${netfilter}/nf_conntrack_udp_timeout`;
    const before = await hostFiles.read(timeout);
    const logger = memoryLogger();
    const settings = [
      // This setting belongs to the host, and other network namespaces may not change it.
      { path: `${netfilter}/nf_conntrack_max`, value: 2 ** 30, onlyRaise: true },
      { path: timeout, value: 47, onlyRaise: false },
      { path: `${netfilter}/no_such_setting`, value: 1, onlyRaise: false },
    ];
    await applySettings(hostFiles, settings, logger);
    expect(await hostFiles.read(timeout)).toBe("47\n");
    await hostFiles.write(timeout, before);
    expect(logger.lines.filter(({ level }) => level === "warn").map(({ fields }) => fields)).toMatchObject([
      { settings: [`${netfilter}/nf_conntrack_max=${2 ** 30}`], error: "EACCES" },
      { settings: [`${netfilter}/no_such_setting=1`], error: "ENOENT" },
    ]);
  });
});
