import { expect, test } from "vitest";
import type { FieldDiagnostic } from "../../../../src/kube/decode/decode.ts";
import { withPortRanges } from "../../../../src/kube/decode/port-ranges.ts";
import { port } from "../../../support/build.ts";

const SIP = port(5060, { name: "sip", protocol: "udp" });
const RTP = port(10_000, { name: "rtp", protocol: "udp" });
const WEB = port(80, { name: "web" });

function decoded(text: string | null, ports = [SIP, RTP, WEB]) {
  const diagnostics: FieldDiagnostic[] = [];
  const metadata = { name: "voice", annotations: { "nft-proxy.io/port-ranges": text } };
  return { ...withPortRanges(ports, metadata, [], diagnostics), diagnostics };
}

test("a Service without the annotation has the ports that it had", () => {
  const ports = [SIP];
  expect(decoded(null, ports).ports).toBe(ports);
});

test("ranges belong to the ports that they name, in ascending order", () => {
  expect(decoded("rtp=20000-20999, sip=5070-5079,rtp=10000-10999")).toEqual({
    ports: [
      { ...SIP, ranges: [{ first: 5070, last: 5079 }] },
      {
        ...RTP,
        ranges: [
          { first: 10_000, last: 10_999 },
          { first: 20_000, last: 20_999 },
        ],
      },
      WEB,
    ],
    diagnostics: [],
  });
});

test.each(["40000-40009", "=40000-40009"])("the range %s belongs to the nameless port", (text) => {
  const ranges = [{ first: 40_000, last: 40_009 }];
  expect(decoded(text, [port(21)])).toEqual({ ports: [{ ...port(21), ranges }], diagnostics: [] });
});

test("two ports may have one range, each for its protocol", () => {
  expect(decoded("rtp=1-65535,web=1-65535").ports).toEqual([
    SIP,
    { ...RTP, ranges: [{ first: 1, last: 65_535 }] },
    { ...WEB, ranges: [{ first: 1, last: 65_535 }] },
  ]);
});

test("a range of another port than the only one is ignored, and the warning names that port", () => {
  expect(decoded("video=1-5", [RTP]).invalidPortRanges).toBe(
    'names the port "video", which the Service does not have: its port is rtp',
  );
});

test.each([
  ["", 'must be NAME=FIRST-LAST, or several with commas between, not ""'],
  ["rtp=5000", 'must be NAME=FIRST-LAST, or several with commas between, not "rtp=5000"'],
  ["rtp=5000-5009,", 'must be NAME=FIRST-LAST, or several with commas between, not ""'],
  ["rtp=-1-5", 'must be NAME=FIRST-LAST, or several with commas between, not "rtp=-1-5"'],
  ["rtp=0-5", 'must have ranges of ports from 1 to 65535, the smaller first, not "rtp=0-5"'],
  ["rtp=9-5", 'must have ranges of ports from 1 to 65535, the smaller first, not "rtp=9-5"'],
  ["rtp=1-65536", 'must have ranges of ports from 1 to 65535, the smaller first, not "rtp=1-65536"'],
  ["video=1-5", 'names the port "video", which the Service does not have: its ports are sip, rtp and web'],
  ["1-5", "must name a port before each range, such as sip=1-5"],
  ["=1-5", "must name a port before each range, such as sip=1-5"],
  ["webb=1-5", 'names the port "webb", which the Service does not have: did you mean web?'],
  ["rtp=1-5,rtp=5-9", "must not have a port twice, as 5 in rtp=1-5 and rtp=5-9"],
  ["rtp=1-9,web=1-9,sip=5-7", "must not have a port twice, as 5 in rtp=1-9 and sip=5-7"],
  [Array.from({ length: 101 }, (_, i) => `rtp=${i + 1}-${i + 1}`).join(), "can have 100 ranges, and has 101"],
])("the annotation %s is ignored with a warning", (text, reason) => {
  expect(decoded(text)).toEqual({
    ports: [SIP, RTP, WEB],
    invalidPortRanges: reason,
    diagnostics: [
      {
        code: "invalid-annotation",
        path: 'metadata.annotations["nft-proxy.io/port-ranges"]',
        reason: `${reason}; no range is served`,
        severity: "warning",
      },
    ],
  });
});
