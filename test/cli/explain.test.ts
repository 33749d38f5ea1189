import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Explanation } from "../../src/inspect/explain/explanation.ts";
import { parseClassid } from "../../src/nft/canonical/constant.ts";
import { rebuildTransaction } from "../../src/nft/transaction.ts";
import { AFFINITY } from "../../src/ruleset/sets.ts";
import { affinityKey } from "../support/affinity-entries.ts";
import { bundle, townFlags, townObjects } from "../support/command.ts";
import { createLab, type Lab } from "../support/lab/lab.ts";
import { loadScenario } from "../support/lab/scenario.ts";
import { nftProxy } from "../support/nft-proxy.ts";
import { StubApi } from "../support/stub-api/stub-api.ts";
import { loadTown } from "../support/stub-api/town.ts";
import { rulesetOfCache, townCache } from "../support/town-ruleset.ts";

const TOWN = ["--from", townObjects("town"), ...townFlags];
const TO_DNS = ["--to", "10.96.0.10", "--port", "53", "--proto", "udp"];

describe("explain from files", () => {
  test("prints the example of the README", async () => {
    const readme = readFileSync(new URL("../../README.md", import.meta.url), "utf8");
    const [, expected = ""] = /\$ nft-proxy explain 10\.96\.0\.7:80\n(.*?)\n```/s.exec(readme) ?? [];
    const objects = fileURLToPath(new URL("../fixtures/readme-explain.yaml", import.meta.url));
    const { stdout } = await nftProxy(["explain", "10.96.0.7:80", "--from", objects, ...townFlags]);
    expect(stdout.split(/\s+/)).toEqual(expected.split(/\s+/));
  });

  test("prints the steps and the conclusion in a pipe, without colours", async () => {
    const { exitCode, stdout, stderr } = await nftProxy(["explain", ...TOWN, ...TO_DNS]);
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" });
    expect(stdout).toBe(`udp from 10.244.1.254 (a pod, assumed) to 10.96.0.10 port 53
on node-1, simulated from these objects
the cluster IP of Service dns/kube-dns, port dns

The path through the rules
  prerouting
    balancing: list 1 of dns/kube-dns port dns (53/udp)
      balancers { 8000:4 : goto balance-2 }
    balance-2: one of 2 endpoints at random; the destination becomes the endpoint
      endpoints { 8000:4 . 0 : 10.244.1.16 . 53 } and 1 more

Endpoints
  50 %  10.244.1.16:53 dns/dns-0 on node-1 in zone-a
  50 %  10.244.2.14:53 dns/dns-1 on node-2 in zone-a

Also
  source: kept: the endpoint sees 10.244.1.254

Served: goes to one of 2 endpoints of dns/kube-dns port dns (53/udp); if it still fails, check whether the pod listens on port 53 (udp) and whether a NetworkPolicy lets the client in.`);
  });

  test.each([
    [["10.96.0.10:53/udp"], TO_DNS],
    [["[fd00:10:96::101]:80"], ["--to", "fd00:10:96::101", "--port", "80"]],
    [["shop/frontend:http"], ["--service", "shop/frontend:http"]],
    [
      ["frontend:http", "-n", "shop"],
      ["--service", "shop/frontend:http"],
    ],
    [
      ["svc/frontend:http", "-n", "shop"],
      ["--service", "shop/frontend:http"],
    ],
  ])("takes the argument %j for %j", async (short, long) => {
    const outcome = await nftProxy(["explain", ...TOWN, ...short]);
    expect(outcome.exitCode).toBe(0);
    expect(outcome).toEqual(await nftProxy(["explain", ...TOWN, ...long]));
  });

  test("--all --problems lists exactly the frontends that are refused, dropped or lost", async () => {
    const all = await nftProxy(["explain", ...TOWN, "--all", "-o", "json"]);
    const { exitCode, stdout } = await nftProxy([
      "explain",
      ...TOWN,
      "--problems",
      "--exit-code",
      "-o",
      "json",
    ]);
    expect([all.exitCode, exitCode]).toEqual([0, 1]);
    const failing = ({ verdict }: Explanation) => ["refused", "dropped"].includes(verdict.result);
    const problems: Explanation[] = JSON.parse(stdout).explanations;
    expect(problems.filter(failing)).toEqual(JSON.parse(all.stdout).explanations.filter(failing));
    expect(problems.every((one) => failing(one) || one.verdict.cause === "conflict")).toBe(true);
    expect(problems.length).toBeGreaterThan(3);
    const served = await nftProxy(["explain", ...TOWN, "shop/frontend", "--exit-code"]);
    expect(served.exitCode).toBe(0);
  });

  test("objects with errors are named before the answer, and end the command if there are no others", async () => {
    const invalid = `apiVersion: v1
kind: Service
metadata: { namespace: shop, name: cart }
spec: { clusterIP: 10.96.0.7, clusterIPs: [10.96.0.7], ports: [{ port: "80" }] }
`;
    const valid = invalid.replace("cart", "other").replaceAll("10.96.0.7", "10.96.0.8").replace('"80"', "80");
    const reason = 'Service shop/cart: spec.ports[0].port must be an integer, not "80"';
    const alone = await nftProxy(["explain", "-f", "-", "10.96.0.7:80"], invalid);
    expect(alone).toMatchObject({ exitCode: 2, stdout: "", stderr: expect.stringContaining(reason) });
    const beside = await nftProxy(["explain", "-f", "-", "10.96.0.7:80"], `${invalid}---\n${valid}`);
    expect(beside).toMatchObject({ exitCode: 0, stderr: expect.stringContaining("may be wrong about them") });
    const named = await nftProxy(["explain", "-f", "-", "shop/cart"], `${invalid}---\n${valid}`);
    expect(named).toMatchObject({ exitCode: 2, stderr: expect.stringContaining(reason) });
    expect(named.stderr).toContain("there is no Service shop/cart");
  });

  test("a Service query explains each frontend in a few lines", async () => {
    const { stdout } = await nftProxy(["explain", ...TOWN, "--service", "shop/frontend:http"]);
    const ways = stdout
      .split("\n")
      .filter((line) => /^ {2}(cluster IP|load-balancer IP|NodePort) /.test(line));
    expect(ways.map((line) => line.trim().split(" port")[0])).toEqual([
      "cluster IP 10.96.1.1",
      "load-balancer IP 203.0.113.10",
      "NodePort 192.0.2.2",
      "cluster IP fd00:10:96::101",
      "load-balancer IP fd00:1b::10",
      "NodePort fd00:c0::2",
    ]);
    expect(stdout.match(/Served: goes to one of 3 endpoints/g)).toHaveLength(6);
  });

  test.each([
    [["--service", "shop/fronted"], "there is no Service shop/fronted"],
    [["--service", "shop/frontend:https"], "has no port https"],
    [["--to", "frontend.shop.svc", "--port", "80"], "must be an IP address"],
    [["--to", "10.96.0.10"], "--port"],
    [["--to", "10.96.0.10", "--port", "0"], "1 to 65535"],
    [["--to", "10.96.0.10", "--port", "53", "--proto", "icmp"], "the protocol must be tcp, udp or sctp"],
    [["--to", "10.96.0.10", "--port", "53", "--source", "moon"], "--source"],
    [["--to", "10.96.0.10", "--port", "53", "--from-ip", "fd00::1"], "must be of one family"],
    [["--to", "10.96.0.10", "--port", "53", "--service", "shop/frontend"], "more than one query"],
    [["10.96.0.10:53", "--all"], "more than one query"],
    [["10.96.0.10", "--proto", "udp"], "a connection needs a port"],
    [[], "ADDRESS:PORT[/PROTOCOL], ADDRESS, SERVICE[:PORT], or --all"],
  ])("refuses %j", async (flags, said) => {
    const { exitCode, stdout, stderr } = await nftProxy(["explain", ...TOWN, ...flags]);
    expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: "" });
    expect(stderr).toContain(said);
  });
});

test.each([
  ["explain", TO_DNS, 0],
  ["dump", [], 0],
  ["diff", [], 1],
])("%s names the nodes among the objects if its own node is missing", async (command, args, code) => {
  const flags = ["--from", townObjects("town"), "--hostname-override=node-9", ...args];
  const { exitCode, stderr } = await nftProxy([command, ...flags]);
  expect({ exitCode, stderr }).toEqual({
    exitCode: code,
    stderr: expect.stringContaining("warning: node node-9 is not among the objects; there are node-1"),
  });
});

describe("explain from a cluster", () => {
  let api: StubApi;
  beforeAll(async () => {
    api = await StubApi.start();
    loadTown(api.cluster);
  });
  afterAll(() => api.close());

  test.each([[TO_DNS], [["--to", "10.96.2.9", "--port", "80"]]])(
    "explains %j as from the same objects in files",
    async (flags) => {
      const fromCluster = await nftProxy(["explain", "--master", api.url, ...townFlags, ...flags]);
      expect(fromCluster).toEqual(await nftProxy(["explain", ...TOWN, ...flags]));
      expect(fromCluster.exitCode).toBe(0);
    },
  );
});

describe("explain --live", () => {
  let lab: Lab;
  beforeAll(async () => {
    lab = await createLab();
  });
  afterAll(() => lab?.close());
  beforeEach(async () => {
    await nft("flush", "ruleset");
  });

  const nft = (...args: string[]) => lab.mustRun("node", ["nft", ...args]);

  /** Has the kernel have the rules that apply makes, without the process. */
  async function program(): Promise<void> {
    const ruleset = rulesetOfCache(townCache("town"), { affinityMapSize: 1_048_576 });
    await lab.loadTransaction(JSON.stringify(rebuildTransaction(ruleset)));
  }

  async function live(...flags: string[]): Promise<Explanation> {
    const { exitCode, stdout, stderr } = await lab.exec([
      process.execPath,
      bundle,
      "explain",
      "--live",
      "--output=json",
      ...flags,
    ]);
    if (exitCode !== 0) throw new Error(stderr);
    return JSON.parse(stdout).explanations[0];
  }

  test("follows the kernel's rules and reports no difference after apply", async () => {
    expect(await lab.exec([process.execPath, bundle, "apply", ...TOWN])).toMatchObject({
      exitCode: 0,
      stderr: "",
    });
    const explanation = await live(...TOWN, ...TO_DNS);
    const { stdout } = await nftProxy(["explain", "--output=json", ...TOWN, ...TO_DNS]);
    expect(explanation).toEqual({ ...JSON.parse(stdout).explanations[0], rules: "live", differences: [] });
  });

  test("--problems names a frontend with a missing element, and no served ones", async () => {
    await program();
    await nft("delete", "element", "ip", "nft-proxy", "lists", "{ 10.96.0.10 . udp . 53 }");
    const flags = ["explain", "--live", "--problems", "--output=json", ...TOWN];
    const { stdout } = await lab.exec([process.execPath, bundle, ...flags]);
    const causes = JSON.parse(stdout).explanations.map(({ verdict }: Explanation) => verdict.cause);
    expect(causes).toContain("not-programmed");
    expect(causes).not.toContain("served");
  });

  test("names a missing element as the cause", async () => {
    await program();
    await nft("delete", "element", "ip", "nft-proxy", "lists", "{ 10.96.0.10 . udp . 53 }");
    const { verdict, differences } = await live(...TOWN, ...TO_DNS);
    expect(verdict).toMatchObject({ result: "refused", cause: "not-programmed" });
    expect(verdict.message).toContain("goes to one of 2 endpoints of dns/kube-dns");
    expect(differences).toEqual(["missing in the kernel: lists { 10.96.0.10 . udp . 53 : 8000:4 }"]);
    const scenario = await loadScenario("town");
    const [probe] = scenario.probes.filter(
      ({ id }) => id === "dns/kube-dns:53/udp cluster 10.96.0.10 from pod3",
    );
    expect((await lab.probe(probe === undefined ? [] : [probe])).get(probe?.id ?? "")).toEqual({
      result: "refused",
    });
  });

  test("names elements that only the kernel has", async () => {
    await program();
    await nft("delete", "element", "ip", "nft-proxy", "endpoints", "{ 8000:4 . 1 }");
    await nft("add", "element", "ip", "nft-proxy", "endpoints", "{ 8000:4 . 1 : 10.244.9.9 . 53 }");
    const { verdict, differences, endpoints } = await live(...TOWN, ...TO_DNS);
    expect(verdict).toMatchObject({ result: "served", cause: "not-programmed" });
    expect(differences).toEqual([
      "missing in the kernel: endpoints { 8000:4 . 1 : 10.244.2.14 . 53 }",
      "only in the kernel: endpoints { 8000:4 . 1 : 10.244.9.9 . 53 }",
    ]);
    expect(endpoints.map(({ address, excluded }) => [address, excluded?.reason])).toEqual([
      ["10.244.1.16", undefined],
      ["10.244.2.14", "not-in-kernel"],
      ["10.244.9.9", undefined],
    ]);
  });

  test("shows the endpoint of a sticky client", async () => {
    await program();
    // Not an endpoint of the Service itself, to which an answer may come from the node's address (hairpin).
    const probe = {
      id: "cart",
      from: "pod5",
      to: "10.96.1.2",
      port: 80,
      proto: "tcp",
      n: 3,
      sticky: true,
    } as const;
    const answers = Object.keys((await lab.observe([probe])).get("cart") ?? {});
    const flags = ["--from-ip", "10.244.1.15", "--to", "10.96.1.2", "--port", "80"];
    const { verdict, endpoints, differences, notes } = await live(...TOWN, ...flags);
    expect({ cause: verdict.cause, differences }).toEqual({ cause: "served", differences: [] });
    expect(verdict.message).toContain("session affinity keeps for this client");
    const [chosen, ...others] = [...endpoints].sort((a, b) => b.probability - a.probability);
    expect(answers).toEqual([`${chosen?.address} ${chosen?.port} 10.244.1.15`]);
    expect(others.map(({ excluded }) => excluded?.reason)).toEqual(others.map(() => "affinity"));
    expect(others.length).toBeGreaterThan(0);
    expect(notes.find(({ topic }) => topic === "affinity")?.message).toMatch(
      /known client; entry expires in (9m\d+s|10m)/,
    );
  });

  test("reports that a sticky client's endpoint is gone", async () => {
    await program();
    const [, id] =
      /tcp \. 80 : (\S+)/.exec(await nft("get element ip nft-proxy lists { 10.96.1.2 . tcp . 80 }")) ?? [];
    const key = affinityKey("10.244.1.13", parseClassid(id));
    await nft("add", "element", "ip", "nft-proxy", AFFINITY, `{ ${key} timeout 10m : c001:4 }`);
    const { verdict, notes } = await live(
      ...TOWN,
      "--from-ip",
      "10.244.1.13",
      "--to",
      "10.96.1.2",
      "--port",
      "80",
    );
    expect(verdict.message).toMatch(/goes to one of \d endpoints/);
    expect(notes.find(({ topic }) => topic === "affinity")?.message).toContain(
      "the endpoint of this client is gone",
    );
  });

  test("suggests comparing options with the daemon's when all rules differ", async () => {
    await program();
    const { differences } = await live(
      "--from",
      townObjects("town"),
      "--hostname-override=node-1",
      ...TO_DNS,
    );
    expect(differences?.join("\n")).toContain("only in the kernel: chain services: ");
    expect(differences?.at(-1)).toContain("--config");
  });

  test("names a foreign rule in nft-proxy's chain as the cause, and prints it", async () => {
    await program();
    await nft("insert", "rule", "ip", "nft-proxy", "services", "ip", "daddr", "10.96.0.10", "drop");
    const { verdict, differences } = await live(...TOWN, ...TO_DNS);
    expect(verdict).toMatchObject({ result: "dropped", cause: "not-programmed" });
    expect(differences).toEqual([
      "only in the kernel: chain services: ip daddr 10.96.0.10 drop",
      expect.stringContaining("or other software"),
    ]);
  });

  test.each([
    ["a Service that exists, and another port", ["--to", "10.96.0.10", "--port", "9"], "refused"],
    ["an unallocated address", ["--to", "10.96.200.200", "--port", "80"], "dropped"],
    ["no Service", ["--to", "198.51.100.1", "--port", "80"], "not-handled"],
  ])("gives no reason for %s without objects, rather than a guess", async (_what, to, result) => {
    await program();
    const { verdict } = await live("--master=http://127.0.0.1:1", ...to);
    expect(verdict).toMatchObject({ result, cause: "unknown" });
    expect(verdict.message).toContain("the reason is unknown: objects unavailable");
  });

  test("reports that no tables are programmed", async () => {
    const { verdict, differences } = await live(...TOWN, ...TO_DNS);
    expect(verdict).toMatchObject({ result: "not-handled", cause: "not-programmed" });
    expect(differences).toEqual(["the kernel has no table ip nft-proxy"]);
  });

  test("follows the kernel's rules if no cluster answers, and says so", async () => {
    await program();
    const { exitCode, stdout, stderr } = await lab.exec([
      process.execPath,
      bundle,
      "explain",
      "--live",
      "--master=http://127.0.0.1:1",
      ...TO_DNS,
    ]);
    expect(exitCode).toBe(0);
    expect(stderr).toContain("objects unavailable, following the kernel's rules alone");
    expect(stdout).toContain("10.244.1.16:53");
    expect(stdout).toContain("goes to one of 2 endpoints");
  });
});
