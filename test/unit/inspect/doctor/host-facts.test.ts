import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import {
  type DoctorHost,
  gatherChains,
  gatherHealth,
  gatherHostNft,
  gatherKernel,
  gatherNft,
  gatherProxyMode,
  gatherSettings,
  gatherTraces,
} from "../../../../src/inspect/doctor/host-facts.ts";
import { nftProgram } from "../../../../src/kernel/nft.ts";
import { interfaceNames } from "../../../../src/kernel/routes.ts";
import { socatVersion } from "../../../../src/kernel/versions.ts";
import { FakeHostFiles } from "../../../support/fake-host-files.ts";

type Texts = Readonly<Record<string, string>>;

/** Makes a host with these files. These command lines print these texts, and no others can be started. */
function fakeHost(texts: Texts, programs: Texts = {}): DoctorHost {
  return {
    files: new FakeHostFiles(texts),
    bytes: async (path) => {
      if (texts[path] === undefined) throw new Error("ENOENT");
      return gzipSync(texts[path]);
    },
    run: async (path, args) => {
      const stdout = programs[[path, ...args].join(" ")];
      const ended = stdout === undefined ? { startError: "ENOENT", exitCode: undefined } : { exitCode: 0 };
      const rest = {
        signal: undefined,
        stderr: "",
        timedOut: false,
        tooMuchOutput: false,
        aborted: false,
        durationMs: 1,
      };
      return { startError: undefined, ...ended, ...rest, stdout: stdout ?? "" };
    },
    isInPod: false,
    get: async (url) => {
      throw new TypeError("fetch failed", { cause: new Error(`no ${url}`) });
    },
  };
}

describe("the doctor's facts", () => {
  test("about a missing nft have the problem, and no chains", async () => {
    const nft = nftProgram({ path: "nft", run: fakeHost({}).run });
    expect(await gatherNft(nft)).toMatchObject({ version: undefined, problem: { hint: expect.any(String) } });
    expect(await gatherChains(nft)).toBeUndefined();
  });

  test("about socat have its version if it runs", async () => {
    const output =
      "socat by Gerhard Rieger and contributors\nsocat version 1.8.0.3 on 09 Apr 2025 00:00:00\n   running on Linux\n";
    expect(await socatVersion(fakeHost({}, { "socat -V": output }).run)).toBe("1.8.0.3");
    expect(await socatVersion(fakeHost({}, { "socat -V": "other\n" }).run)).toBe("of unknown version");
    expect(await socatVersion(fakeHost({}).run)).toBeUndefined();
  });

  test("about the host's nft have its version unless it is ours, and nothing in a pod", async () => {
    const host = fakeHost({}, { "/usr/sbin/nft --version": "v1.0.6\n" });
    expect(await gatherHostNft(host, "nft")).toEqual([{ path: "/usr/sbin/nft", version: "v1.0.6" }]);
    expect(await gatherHostNft(host, "/usr/sbin/nft")).toEqual([]);
    expect(await gatherHostNft(fakeHost({}), "nft")).toEqual([]);
    expect(await gatherHostNft({ ...host, isInPod: true }, "nft")).toBeUndefined();
  });

  test.each<[Texts, string | undefined]>([
    [{ "/proc/config.gz": "CONFIG_A=y" }, "CONFIG_A=y"],
    [{ "/boot/config-6.1": "CONFIG_B=y" }, "CONFIG_B=y"],
    [{}, undefined],
  ])("about a kernel with %o have its release, and its build options if available", async (texts, config) => {
    const host = fakeHost({ "/proc/sys/kernel/osrelease": "6.1\n", ...texts });
    expect(await gatherKernel(host)).toMatchObject({ release: "6.1", config });
  });

  test("about settings exclude missing settings", async () => {
    const path = "/proc/sys/net/ipv4/ip_forward";
    expect(await gatherSettings(fakeHost({ [path]: "1\n" }), [path, "/proc/sys/absent"])).toEqual(
      new Map([[path, 1]]),
    );
  });

  test("about other proxies have legacy tables, IPVS servers and the interface of ipvs", async () => {
    const ipvs = `IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
TCP  0A60000A:0035 rr
  -> 0AF40105:0035      Masq    1      0          0
UDP  0A60000A:0035 rr
`;
    const host = fakeHost({
      "/proc/net/ip_vs": ipvs,
      "/proc/net/ip_tables_names": "nat\nfilter\n",
      "/proc/net/ip6_tables_names": "filter\n",
      "/proc/net/dev":
        "Inter-| Receive\n face |bytes\n    lo: 1 2\nkube-ipvs0:  0 0\ncilium_host: 3 4\n  eth0: 1\n",
    });
    expect(await interfaceNames(host.files)).toEqual(["lo", "kube-ipvs0", "cilium_host", "eth0"]);
    expect(await gatherTraces(host)).toEqual({
      legacyTables: ["nat", "filter"],
      ipvsSchedulers: ["rr", "rr"],
    });
    expect(await gatherTraces(fakeHost({}))).toEqual({ legacyTables: [], ipvsSchedulers: [] });
  });

  test("about kube-proxy's mode have the first answer that is not nftables, because nft-proxy answers that, too", async () => {
    const answers: Texts = {
      "http://127.0.0.1:10249/proxyMode": "nftables",
      "http://[::1]:10249/proxyMode": "ipvs\n",
    };
    const get = async (url: string) => {
      if (answers[url] === undefined) throw new Error("ECONNREFUSED");
      return { status: 200, body: answers[url] };
    };
    const [ip, ip6] = ["http://127.0.0.1:10249", "http://[::1]:10249"];
    expect(await gatherProxyMode({ ...fakeHost({}), get }, [ip, ip6])).toBe("ipvs");
    expect(await gatherProxyMode({ ...fakeHost({}), get }, [ip])).toBeUndefined();
  });

  test("about a daemon that does not answer have the system's error", async () => {
    const silent = { kind: "silent", url: "http://h", reason: "no http://h/healthz" };
    expect(await gatherHealth(fakeHost({}), "http://h")).toEqual(silent);
  });
});
