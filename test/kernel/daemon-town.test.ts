import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { DaemonLab } from "../support/daemon-lab.ts";
import { everyTenth, lastingDifferences, loadScenario } from "../support/lab/scenario.ts";
import type { RunningDaemon } from "../support/running-daemon.ts";
import { StubCluster } from "../support/stub-api/stub-cluster.ts";
import { loadTown, replayTown } from "../support/stub-api/town.ts";

let lab: DaemonLab;
let daemon: RunningDaemon;
beforeAll(async () => {
  lab = await DaemonLab.create();
});
afterAll(() => lab?.close());

describe("the daemon in the recorded town", () => {
  test("programs nothing before every resource has been listed once", async () => {
    loadTown(lab.cluster);
    const fault = { kind: "status", status: 500 } as const;
    lab.api.addFault({ resource: "servicecidrs", verb: "list", fault, times: Number.POSITIVE_INFINITY });
    daemon = lab.start(["--iptables-sync-period=1s"]);
    const listed = () => lab.api.requests.filter(({ resource }) => resource === "servicecidrs").length;
    await expect.poll(listed).toBeGreaterThanOrEqual(2);
    expect(await lab.kernelText()).toBe("");
    lab.api.clearFaults();
    await lab.converged();
    await daemon.saying("full sync");
    expect(daemon.said("full sync")).toHaveLength(1);
  });

  test("answers /healthz, /livez and /proxyMode as kube-proxy does", async () => {
    expect(await lab.get(10249, "/healthz")).toMatchObject({ status: 200, body: "ok" });
    expect(await lab.get(10249, "/proxyMode")).toMatchObject({ status: 200, body: "nftables" });
    for (const [path, fields] of [
      ["/healthz", ["lastUpdated", "currentTime", "nodeEligible", "healthy", "status"]],
      [
        "/livez",
        ["lastUpdated", "currentTime", "lastVerified", "quarantinedServicePorts", "healthy", "status"],
      ],
    ] as const) {
      const { status, headers, body } = await lab.get(10256, path);
      expect([status, headers.get("content-type")]).toEqual([200, "application/json"]);
      const answer = JSON.parse(body);
      expect(Object.keys(answer)).toEqual(fields);
      expect(Object.keys(answer.status)).toEqual(["IPv4", "IPv6"]);
      expect(Object.keys(answer.status.IPv4)).toEqual(["lastUpdated", "healthy"]);
      expect(await lab.metric(`kubeproxy_proxy_${path.slice(1)}_total`, 'code="200"')).toBe(1);
    }
  });

  test("has the rules of a fresh start after the recorded changes, and sends packets where kube-proxy did", async () => {
    await lab.watched();
    replayTown(lab.cluster);
    const after = new StubCluster();
    loadTown(after, "town-after");
    await lab.converging(lab.wantedText({}, after));
    const scenario = everyTenth(await loadScenario("town-after"));
    expect(await lastingDifferences(scenario, lab.lab)).toEqual([]);
  });

  test("ends cleanly on SIGTERM and leaves the rules", async () => {
    const before = await lab.kernelText();
    expect(await daemon.stop()).toBe(0);
    expect(await lab.kernelText()).toBe(before);
    expect(daemon.otherLines).toEqual([]);
  });
});
