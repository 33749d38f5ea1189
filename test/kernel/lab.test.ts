import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createLab, type Lab } from "../support/lab/lab.ts";
import { everyTenth, lastingDifferences, loadScenario, type Scenario } from "../support/lab/scenario.ts";

/** Tests the lab itself, with a transaction made by hand and the recorded answers of a real kube-proxy. */
describe("a node in namespaces with the recorded town's rules", () => {
  let lab: Lab;
  let town: Scenario;

  beforeAll(async () => {
    [lab, town] = await Promise.all([createLab(), loadScenario("town")]);
    await lab.loadTransaction(await readFile(join(town.folder, "transaction.json"), "utf8"));
  });
  afterAll(() => lab?.close());

  it("answers probes as kube-proxy did", async () => {
    const sample = everyTenth(town);
    expect(sample.probes).toHaveLength(40);
    expect(await lastingDifferences(sample, lab)).toEqual([]);
  });

  it("shows a difference if one element is missing", async () => {
    const id = "dns/kube-dns:53/udp cluster 10.96.0.10 from pod1";
    const gone = await lab.exec(["nft", "delete element ip nft-proxy lists { 10.96.0.10 . udp . 53 }"]);
    expect(gone).toMatchObject({ exitCode: 0, stderr: "" });
    const probes = town.probes.filter(
      (probe) => probe.id === id || probe.id.startsWith("dns/kube-dns:53/tcp"),
    );
    const outcomes = await lab.probe(probes);
    const seen = probes.filter(
      (probe) => JSON.stringify(outcomes.get(probe.id)) !== JSON.stringify(town.expect[probe.id]),
    );
    expect(seen.map((probe) => probe.id)).toEqual([id]);
  });

  it("is separate from the node of another lab", async () => {
    const other = await createLab();
    try {
      expect(await other.exec(["nft", "list", "tables"])).toMatchObject({ exitCode: 0, stdout: "" });
      expect((await lab.exec(["nft", "list", "tables"])).stdout).toContain("table ip nft-proxy");
    } finally {
      await other.close();
    }
  });
});
