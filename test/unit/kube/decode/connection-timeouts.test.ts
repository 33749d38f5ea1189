import { expect, test } from "vitest";
import { connectionTimeoutsOf } from "../../../../src/kube/decode/connection-timeouts.ts";
import type { FieldDiagnostic } from "../../../../src/kube/decode/decode.ts";
import { port } from "../../../support/build.ts";

const WEB = port(80, { name: "web" });
const DNS = port(53, { name: "dns", protocol: "udp" });
const SIGNAL = port(36_412, { name: "signal", protocol: "sctp" });

function decoded(text: string | null, ports = [WEB]) {
  const diagnostics: FieldDiagnostic[] = [];
  const metadata = { name: "web", annotations: { "nft-proxy.io/connection-timeouts": text } };
  const fields = connectionTimeoutsOf(metadata, ports, diagnostics);
  return { fields, reasons: diagnostics.map(({ reason }) => reason) };
}

test("a Service without the annotation has no timeouts", () => {
  expect(decoded(null)).toEqual({ fields: {}, reasons: [] });
});

test("the annotation gives the timeouts", () => {
  expect(decoded("udp=5s,tcp-established=2h", [WEB, DNS])).toEqual({
    fields: { connectionTimeouts: { "tcp-established": 7200, udp: 5 } },
    reasons: [],
  });
});

test("an invalid annotation is ignored as a whole, with a warning", () => {
  const { fields, reasons } = decoded("tcp-established=2h,tcp-close=2h");
  expect(fields).toEqual({ invalidConnectionTimeouts: expect.stringContaining('not "2h"') });
  expect(reasons).toEqual([expect.stringMatching(/; it is ignored$/)]);
});

test("values without a port of their protocol are named, and a list of only such values is ignored", () => {
  expect(decoded("udp=5s,udp-stream=6s,tcp-established=2h")).toEqual({
    fields: { connectionTimeouts: { "tcp-established": 7200, udp: 5, "udp-stream": 6 } },
    reasons: ["has values that no port of the Service uses: udp, udp-stream"],
  });
  expect(decoded("udp=5s")).toEqual({
    fields: {
      invalidConnectionTimeouts: "has no value for a port of the Service: udp are for other protocols",
    },
    reasons: [expect.stringMatching(/; it is ignored$/)],
  });
});

test("SCTP ports are named, as nft cannot set their timeouts", () => {
  expect(decoded("tcp-established=2h", [WEB, SIGNAL]).reasons).toEqual([
    "has no effect on SCTP, the protocol of signal: nft cannot set its timeouts",
  ]);
  expect(decoded("tcp-established=2h", [SIGNAL]).fields).toHaveProperty("invalidConnectionTimeouts");
});
