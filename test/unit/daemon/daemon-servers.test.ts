import { describe, expect, test } from "vitest";
import { metricsRoutes } from "../../../src/daemon/daemon-servers.ts";
import { textAnswer } from "../../../src/daemon/http/http-server.ts";

describe("metricsRoutes", () => {
  const table = metricsRoutes(
    { flags: new Map([["v", "2"]]), version: "1.2.3" },
    { now: () => 90_500 },
    { metrics: async () => "up 1\n", contentType: "text/plain; version=0.0.4; charset=utf-8" },
    0,
    () => ({ mode: "nftables" }),
    () => textAnswer("the page"),
  );

  test.each([
    ["/metrics", "up 1\n", "text/plain; version=0.0.4; charset=utf-8"],
    ["/healthz", "ok", "text/plain; charset=utf-8"],
    ["/proxyMode", "nftables", "text/plain; charset=utf-8"],
    ["/configz", '{"kubeproxy.config.k8s.io":{"mode":"nftables"}}', "application/json"],
  ])("answers %s with %j", async (path, body, contentType) => {
    expect(await table.get(path)?.(new URLSearchParams())).toMatchObject({ status: 200, body, contentType });
  });

  test("answers /statusz and /flagz with version, uptime, paths and flags", async () => {
    const { body: status } = (await table.get("/statusz")?.(new URLSearchParams())) ?? { body: "" };
    expect(status).toContain("Up=90 s\n");
    expect(status).toContain("Binary version=1.2.3\n");
    expect(status).toContain("Paths=/ /configz /flagz /healthz /metrics /proxyMode /statusz\n");
    const { body: flags } = (await table.get("/flagz")?.(new URLSearchParams())) ?? { body: "" };
    expect(flags).toContain("\nv=2\n");
  });
});
