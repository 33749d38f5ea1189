import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { describe, expect, onTestFinished, test } from "vitest";
import { hostFamilies, onlineCores, programName } from "../../../src/kernel/host.ts";
import { FakeHostFiles } from "../../support/fake-host-files.ts";

describe("the host", () => {
  test("has IPv6 if the kernel has a list of its addresses, even an empty one", async () => {
    expect(await hostFamilies(new FakeHostFiles({ "/proc/net/if_inet6": "" }))).toEqual(["ip", "ip6"]);
    expect(await hostFamilies(new FakeHostFiles({}))).toEqual(["ip"]);
  });

  test("is not mistaken for one without IPv6 if that list cannot be read", async () => {
    const files = new FakeHostFiles({});
    files.read = () => Promise.reject(Object.assign(new Error("too many open files"), { code: "EMFILE" }));
    await expect(hostFamilies(files)).rejects.toMatchObject({
      code: "HOST",
      message: "cannot tell from /proc/net/if_inet6 whether this host has IPv6: EMFILE",
    });
  });

  test.each([
    ["0\n", 1],
    ["0-7\n", 8],
    ["0-3,8,10-11\n", 7],
    ["nonsense", 1],
    ["", 1],
  ])("with the CPUs %j online has %i cores", async (text, cores) => {
    expect(await onlineCores(new FakeHostFiles({ "/sys/devices/system/cpu/online": text }))).toBe(cores);
  });
});

describe("the name of a program", () => {
  const loader = "/lib64/ld-linux-x86-64.so.2";
  const name = "ld-linux-x86-64";

  test("is the kernel's name of its process", () => {
    expect(programName("nft", process.pid)).toBe("nft");
  });

  test.skipIf(!existsSync(loader))(
    "is that of the program which a loader loads, after its options",
    async () => {
      const args = ["--inhibit-cache", "--library-path", "/lib", "/bin/sleep", "60"];
      const child = spawn(loader, args, { stdio: "ignore" });
      onTestFinished(() => void child.kill("SIGKILL"));
      await expect.poll(() => programName(name, child.pid ?? 0)).toBe("sleep");
    },
  );

  test("is unknown if the loader has ended, or the number is that of another process", () => {
    for (const pid of [2 ** 30, process.pid])
      expect(programName(name, pid)).toBe("a program that ld-linux-x86-64 loaded");
  });
});
