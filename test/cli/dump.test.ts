import { execa } from "execa";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { townFlags, townObjects } from "../support/command.ts";
import { nftProxy } from "../support/nft-proxy.ts";
import { StubApi } from "../support/stub-api/stub-api.ts";
import { loadTown } from "../support/stub-api/town.ts";

const flush = () => execa("nft", ["flush", "ruleset"]);
beforeEach(flush);
afterEach(flush);

const from = (town: "town" | "town-after") => ["--from", townObjects(town), ...townFlags];

async function dump(...args: string[]): Promise<string> {
  const { exitCode, stdout, stderr } = await nftProxy(["dump", ...args]);
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
  return `${stdout}\n`;
}

/** Runs nft on a text; its own words are the error. */
async function nft(args: readonly string[], input = ""): Promise<string> {
  return (await execa("nft", args, { input, stripFinalNewline: false })).stdout;
}

async function tables(): Promise<string> {
  const families = ["ip", "ip6"].map((family) => nft(["-s", "list", "table", family, "nft-proxy"]));
  return (await Promise.all(families)).join("");
}

const withoutComments = (text: string): string[] =>
  [...text.matchAll(/^\s*(.*?),?(?: # .*)?$/gm)].map(([, line]) => line ?? "").filter((line) => line !== "");

describe("dump", () => {
  test("in nft's format has the tables of the transaction, and a comment on every element", async () => {
    await nft(["-j", "-f", "-"], await dump(...from("town")));
    const programmed = await tables();
    await flush();
    const text = await dump(...from("town"), "--output=nft");
    await nft(["-f", "-"], text);
    expect(await tables()).toBe(programmed);
    expect(text).toContain(": goto balance-3, # shop/frontend:http/tcp\n");
    const uncommented = text
      .split("\n")
      .filter((line) => / : (?:goto|jump|drop|\d)/.test(line) && !line.includes(" # "));
    expect(uncommented).toEqual([]);
  });

  test.each(["nft", "json"] as const)(
    "of one Service as %s loads by itself, and contains nothing else",
    async (format) => {
      const text = await dump(...from("town"), `--output=${format}`, "--service=shop/cart");
      await nft([...(format === "json" ? ["-j"] : []), "-f", "-"], text);
      const listed = await tables();
      for (const target of ["goto affinity", "jump choose-balance-4", "jump remember-600"])
        expect(listed).toContain(`: ${target} `);
      expect(listed).not.toContain("10.96.1.1");
    },
  );

  test("of one port names it by name or number", async () => {
    const byName = await dump(...from("town"), "--output=nft", "--service=dns/kube-dns:dns");
    expect(byName).toContain("10.96.0.10 . udp . 53");
    expect(byName).not.toContain("10.96.0.10 . tcp . 53");
    expect(await dump(...from("town"), "--output=nft", "--service=dns/kube-dns:9153")).toContain(
      ". tcp . 9153",
    );
  });

  test("of one family has no other table", async () => {
    const text = await dump(...from("town"), "--output=nft", "--family=ip6");
    expect(text.match(/^table .*/gm)).toEqual(["table ip6 nft-proxy {"]);
  });

  test.each(["nft", "json"] as const)(
    "--diff as %s has nothing after apply, and else the commands that apply the change",
    async (format) => {
      const diff = (...args: string[]) =>
        dump(...from("town-after"), "--diff", `--output=${format}`, ...args);
      const load = (text: string) => nft([...(format === "json" ? ["-j"] : []), "-f", "-"], text);
      await load(await diff());
      const fresh = await tables();
      expect(await diff()).toBe(format === "nft" ? "# nothing to change\n" : '{"nftables":[]}\n');
      await flush();
      await nft(["-j", "-f", "-"], await dump(...from("town")));
      const text = await diff();
      expect(text.length).toBeLessThan((await dump(...from("town-after"), `--output=${format}`)).length / 2);
      await load(text);
      expect(withoutComments(await tables()).sort()).toEqual(withoutComments(fresh).sort());
    },
  );

  test("--diff of one Service has its elements alone", async () => {
    await nft(["-j", "-f", "-"], await dump(...from("town")));
    await nft(["delete", "element", "ip", "nft-proxy", "lists", "{ 10.96.1.2 . tcp . 80 }"]);
    await nft(["delete", "element", "ip", "nft-proxy", "lists", "{ 10.96.1.1 . tcp . 80 }"]);
    expect(await dump(...from("town"), "--diff", "--output=nft", "--service=shop/cart")).toBe(
      "add element ip nft-proxy lists {\n\t10.96.1.2 . tcp . 80 : c001:0 # shop/cart:http/tcp\n}\n",
    );
  });

  test("of a cluster has the objects as they are", async () => {
    const api = await StubApi.start();
    loadTown(api.cluster);
    expect(await dump("--master", api.url, ...townFlags)).toBe(await dump(...from("town")));
    const { url } = api;
    await api.close();
    const { exitCode, stderr } = await nftProxy(["dump", "--master", url, ...townFlags]);
    expect(exitCode).toBe(2);
    expect(stderr).toMatch(/^nft-proxy: cannot list nodes at http:[^ ]*: .*ECONNREFUSED/);
  });

  test.each([
    [["--service=shop/absent"], "no rules are made for shop/absent"],
    [["--service=Shop/cart"], "--service must name a Service: namespace/name"],
    [["--family=ip4"], "--family must be ip or ip6"],
    [["--output=yaml"], "--output"],
  ])("refuses %s", async (args, said) => {
    const { exitCode, stderr } = await nftProxy(["dump", ...from("town"), ...args]);
    expect(exitCode).toBe(2);
    expect(stderr).toContain(said);
  });
});
