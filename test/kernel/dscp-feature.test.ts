import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { execa } from "execa";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { annotationRows } from "../support/annotation-rows.ts";
import { apiListText, apiService, apiSlice } from "../support/api-objects.ts";
import { DaemonLab } from "../support/daemon-lab.ts";
import { DSCP_ANNOTATION, dscp, MOST_VALUES } from "../support/dscp/feature.ts";
import type { RunningDaemon } from "../support/running-daemon.ts";
import type { StubObject } from "../support/stub-api/selectors.ts";
import { loadTown } from "../support/stub-api/town.ts";

// A feature that no file of src names is in a bundle with a registry of the tests.

const root = fileURLToPath(new URL("../..", import.meta.url));
const bundle = join(root, ".cache/dscp/nft-proxy.js");
const REGISTRY = "test/support/dscp/registry.ts";

const ADDRESSES = { ip: "10.96.8.1", ip6: "fd00:10:96::8:1" };
const TOO_MUCH = `must be a number from 0 to 63, not "64"`;
const OFF = "needs the feature dscp, which is off in namespace shop";
const NINTH = new RegExp(`without its DSCP value: .*${MOST_VALUES} different DSCP values in a family`);

/** A Service with a DSCP value, created in that year. */
function marked(name: string, dscp: string, clusterIP: string, year = 2026): StubObject {
  const { metadata, ...rest } = apiService(name, { clusterIP, ports: [{ port: 80, targetPort: 8080 }] });
  const annotations = { [DSCP_ANNOTATION]: dscp };
  const creationTimestamp = `${year}-01-01T00:00:00Z`;
  const spec = { ...(rest.spec as object), selector: { app: name } };
  return { ...rest, spec, metadata: { ...metadata, annotations, creationTimestamp } };
}

/** The same object in another namespace. */
const moved = (object: StubObject, namespace: string): StubObject => ({
  ...object,
  metadata: { ...object.metadata, namespace },
});

/** One namespace may have half of the values, so the nine are in three. */
const namespaceOf = (value: number) => ["shop", "games", "late"][Math.floor((2 * value) / MOST_VALUES)] ?? "";

/** Services with nine values, the last of which is the newest. */
const NINE = Array.from({ length: MOST_VALUES + 1 }, (_, i) =>
  moved(marked(`value-${i}`, String(i), `10.96.9.${i + 1}`, 2000 + i), namespaceOf(i)),
);
const OF_NINE = NINE.map((_, i) => moved(apiSlice(`value-${i}`, ["10.244.1.12"]), namespaceOf(i)));
const SLICES = [
  apiSlice("web", ["10.244.1.12"]),
  apiSlice("web6", ["fd00:244:1::12"]),
  apiSlice("bad", ["10.244.1.12"]),
];
const SERVICES = [
  marked("web", "10", ADDRESSES.ip, 1999),
  marked("web6", "46", ADDRESSES.ip6),
  marked("bad", "64", "10.96.8.3"),
];

let directory: string;
let objects: string;
let nine: string;
beforeAll(async () => {
  await execa(process.execPath, ["scripts/build.mjs", ".cache/dscp", REGISTRY], { cwd: root });
  directory = await mkdtemp(join(tmpdir(), "feature-"));
  objects = join(directory, "objects.json");
  nine = join(directory, "nine.json");
  await writeFile(objects, apiListText(SERVICES, SLICES));
  await writeFile(nine, apiListText(NINE, OF_NINE));
});
afterAll(() => rm(directory, { recursive: true }));

/** Runs the bundle with this feature or none. Returns everything it printed. */
async function run(features: "dscp" | "none", command: string, ...args: readonly string[]): Promise<string> {
  const argv = [bundle, command, `--features=${features}`, "--hostname-override=node-1", ...args];
  const { exitCode, all } = await execa(process.execPath, argv, { reject: false, all: true });
  expect({ exitCode, all }).toMatchObject({ exitCode: 0 });
  return all;
}

describe("a feature of the tests", () => {
  test("is among the values of --features, and in the help and the configuration", async () => {
    const help = await execa(process.execPath, [bundle, "run", "--help-all"]);
    expect(help.stdout).toMatch(/--features [^;]* connection-timeouts, dscp,/);
    expect(await run("dscp", "config")).toMatch(/features:\n\s+- dscp\n/);
    const typo = await execa(process.execPath, [bundle, "config", "--features=dcsp"], { reject: false });
    expect(typo.exitCode).toBe(2);
    expect(typo.stderr).toContain("dscp");
  });

  test("has a row in the reference", () => {
    expect(annotationRows([dscp])).toEqual([
      [
        `\`${DSCP_ANNOTATION}\``,
        "`0` to `63`",
        expect.any(String),
        "`dscp`",
        "who may write Services",
        expect.any(String),
      ],
    ]);
  });

  test("has its rules in a dump if it is on", async () => {
    const text = await run("dscp", "dump", "--output=nft", `--from=${objects}`);
    expect(text).toMatch(/: jump dscp-10,? # shop\/web/);
    expect(text).toMatch(/: jump dscp-46,? # shop\/web6/);
    expect(text).toMatch(/chain dscp-10 \{[^\n]*\n\s+ip dscp set 10\n/);
    expect(text).toMatch(/chain dscp-46 \{[^\n]*\n\s+ip6 dscp set 46\n/);
    // In all ways to endpoints, before the balancers.
    expect(text).toMatch(/vmap @dscp\n\s+meta priority vmap @balancers\n/);
    expect(await run("dscp", "dump", `--from=${objects}`)).toContain('"dscp-46"');
  });

  test("has no rules if it is off", async () => {
    expect(await run("none", "dump", "--output=nft", `--from=${objects}`)).not.toMatch(
      /@dscp|dscp-|dscp set/,
    );
  });

  test("is in the explanation of a connection", async () => {
    const text = await run("dscp", "explain", `${ADDRESSES.ip}:80`, `--from=${objects}`);
    expect(text).toContain("balancing: the DSCP field is set");
    expect(text).toContain("DSCP: the first packet of each connection gets the DSCP value 10");
    expect(text).toContain("100 %  10.244.1.12:8080");
    expect(text).not.toContain("not understood");
    expect(await run("none", "explain", `${ADDRESSES.ip}:80`, `--from=${objects}`)).toContain(OFF);
  });

  test("has diagnostics about an invalid value, a ninth one, and one that is off", async () => {
    const checked = await run("dscp", "check", `--from=${objects}`);
    expect(checked).toContain(
      `Service shop/bad: items[2].metadata.annotations["${DSCP_ANNOTATION}"] ${TOO_MUCH}; it is ignored`,
    );
    expect(checked).toContain("kernel: accepts the rules of 3 readable Services");
    const off = await run("none", "check", `--from=${objects}`);
    expect(off.match(/\[feature-off\]/g)).toHaveLength(3);
    expect(off).toContain(`Service shop/web: items[0].metadata.annotations["${DSCP_ANNOTATION}"] ${OFF}`);
    const budget = await run("dscp", "check", `--from=${nine}`);
    expect(budget.match(/different DSCP values/g)).toHaveLength(1);
    expect(budget).toMatch(/Service late\/value-8: .*8 different DSCP values in a family/);
  });

  test("serves the Service with a ninth value without it, and says why", async () => {
    const text = await run("dscp", "dump", "--output=nft", `--from=${nine}`);
    expect(text.match(/chain dscp-\d+/g)).toHaveLength(MOST_VALUES);
    expect(text).not.toContain("dscp-8");
    const explained = await run("dscp", "explain", "10.96.9.9:80", `--from=${nine}`);
    expect(explained).toMatch(NINTH);
    expect(explained).toContain("100 %  10.244.1.12:8080");
  });
});

describe("the daemon with a feature of the tests", () => {
  let lab: DaemonLab;
  let daemon: RunningDaemon;
  beforeAll(async () => {
    lab = await DaemonLab.create();
    loadTown(lab.cluster);
    for (const each of [...SERVICES, ...NINE.slice(1)]) lab.cluster.put("services", each);
    for (const each of [...SLICES, ...OF_NINE.slice(1)]) lab.cluster.put("endpointslices", each);
    // Counts what the endpoint gets: first packets, others, and values that no Service has.
    await lab.lab.mustRun("pod2", ["nft", "-f", "-"], {
      input: `table inet seen {
        counter first4 { }
        counter first6 { }
        counter later { }
        chain in {
          type filter hook input priority 0;
          tcp dport 8080 tcp flags & (syn | ack) == syn ip dscp 10 counter name first4
          tcp dport 8080 tcp flags & (syn | ack) == syn ip6 dscp 46 counter name first6
          tcp dport 8080 tcp flags & (syn | ack) == ack ip dscp 0 counter name later
        }
      }`,
    });
    daemon = lab.start(["--features=dscp"], undefined, [bundle]);
    await daemon.saying("full sync");
  });
  afterAll(async () => {
    await daemon?.stop();
    await lab?.close();
  });

  test("marks the first packet of each connection, and keeps the rules", async () => {
    const probes = Object.entries(ADDRESSES).map(
      ([id, to]) => ({ id, from: "pod3", to, port: 80, proto: "tcp", n: 3 }) as const,
    );
    const results = await lab.lab.probe(probes);
    const count = async (name: string) => {
      const text = await lab.lab.mustRun("pod2", ["nft", "list", "counter", "inet", "seen", name]);
      return Number(/packets (\d+)/.exec(text)?.[1]);
    };
    expect([...results.values()].map(({ result }) => result)).toEqual(["ok", "ok"]);
    expect([await count("first4"), await count("first6")]).toEqual([3, 3]);
    expect(await count("later")).toBeGreaterThanOrEqual(3);
    const drift = () => lab.metric("nft_proxy_drift_repairs_total");
    const repaired = await drift();
    await lab.nft("flush", "chain", "ip", "nft-proxy", "dscp-10");
    await expect
      .poll(() => lab.nft("list", "chain", "ip", "nft-proxy", "dscp-10"))
      .toContain("dscp set af11");
    await expect.poll(drift).toBe(repaired + 1);
  });

  test("reports an invalid value and a ninth one in Events", async () => {
    const events = (name: string) =>
      lab.api.events.flatMap(({ reason, regarding, note }) =>
        reason === name ? [`${(regarding as { readonly name: string }).name}: ${note}`] : [],
      );
    await expect
      .poll(() => events("InvalidDscp"))
      .toEqual([`bad: ${DSCP_ANNOTATION} ${TOO_MUCH}: it is ignored`]);
    await expect
      .poll(() => events("DscpNotSet"))
      .toEqual([expect.stringMatching(/^value-8: .*8 different DSCP values/)]);
  });

  test("shows the value on the status page and the rules in the metrics", async () => {
    const page = async (path: string) => (await lab.get(10249, path)).body;
    expect(await page("/?service=shop/web")).toContain('<span class="badge">DSCP 10</span>');
    expect(await page("/?service=shop/bad")).not.toContain('<span class="badge">DSCP');
    for (const [family, elements] of [
      ["ip", 8],
      ["ip6", 1],
    ] as const)
      expect(await lab.metric("nft_proxy_map_elements", `family="${family}",map="dscp"`)).toBe(elements);
  });
});
