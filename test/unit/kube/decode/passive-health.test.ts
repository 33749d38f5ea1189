import { expect, test } from "vitest";
import type { FieldDiagnostic } from "../../../../src/kube/decode/decode.ts";
import { passiveHealthCheckOf } from "../../../../src/kube/decode/passive-health.ts";
import { DEFAULT_PASSIVE_HEALTH_CHECK } from "../../../../src/model/passive-health.ts";
import { port } from "../../../support/build.ts";

const WEB = port(80, { name: "web" });
const DNS = port(53, { name: "dns", protocol: "udp" });

function decoded(text: string | null, ports = [WEB]) {
  const diagnostics: FieldDiagnostic[] = [];
  const metadata = { name: "web", annotations: { "nft-proxy.io/passive-health-check": text } };
  const fields = passiveHealthCheckOf(metadata, ports, diagnostics);
  return { fields, reasons: diagnostics.map(({ reason }) => reason) };
}

test("a Service without the annotation has no setting", () => {
  expect(decoded(null)).toEqual({ fields: {}, reasons: [] });
});

test("the annotation is the Service's setting", () => {
  expect(decoded("on")).toEqual({
    fields: { passiveHealthCheck: DEFAULT_PASSIVE_HEALTH_CHECK },
    reasons: [],
  });
  expect(decoded("off", [DNS])).toEqual({ fields: { passiveHealthCheck: "off" }, reasons: [] });
});

test("an invalid annotation is ignored with a warning", () => {
  const { fields, reasons } = decoded("sometimes");
  expect(fields).toEqual({ invalidPassiveHealthCheck: expect.stringContaining('not "sometimes"') });
  expect(reasons).toEqual([expect.stringMatching(/; it is ignored$/)]);
});

test("ports of other protocols are named, and a Service without a TCP port is not watched", () => {
  expect(decoded("on", [WEB, DNS])).toEqual({
    fields: { passiveHealthCheck: DEFAULT_PASSIVE_HEALTH_CHECK },
    reasons: ["is for TCP: does not watch dns (udp)"],
  });
  expect(decoded("on", [DNS]).fields).toEqual({
    invalidPassiveHealthCheck: expect.stringMatching(/^is for TCP/),
  });
});
