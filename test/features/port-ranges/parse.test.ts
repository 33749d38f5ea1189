import { expect, test } from "vitest";
import { parsePortRanges } from "../../../src/features/port-ranges/parse.ts";
import type { PortInterval } from "../../../src/ruleset/interval-frontends.ts";
import { port } from "../../support/build.ts";

const SIP = port(5060, { name: "sip", protocol: "udp" });
const RTP = port(10_000, { name: "rtp", protocol: "udp" });
const WEB = port(80, { name: "web" });

function decoded(text: string, ports = [SIP, RTP, WEB]) {
  return parsePortRanges(text, { ports, invalidPorts: [] });
}

const given = (byPort: Record<string, readonly PortInterval[]>) => ({
  value: { byPort: new Map(Object.entries(byPort)) },
});

test("ranges belong to the ports that they name, in ascending order", () => {
  expect(decoded("rtp=20000-20999, sip=5070-5079,rtp=10000-10999")).toEqual(
    given({
      sip: [{ first: 5070, last: 5079 }],
      rtp: [
        { first: 10_000, last: 10_999 },
        { first: 20_000, last: 20_999 },
      ],
    }),
  );
});

test.each(["40000-40009", "=40000-40009"])("the range %s belongs to the nameless port", (text) => {
  const ranges = [{ first: 40_000, last: 40_009 }];
  expect(decoded(text, [port(21)])).toEqual(given({ "": ranges }));
});

test("two ports may have one range, each for its protocol", () => {
  const ranges = [{ first: 1, last: 65_535 }];
  expect(decoded("rtp=1-65535,web=1-65535")).toEqual(given({ rtp: ranges, web: ranges }));
});

test("a range of another port than the only one is invalid, and the reason names that port", () => {
  expect(decoded("video=1-5", [RTP])).toEqual({
    reason: 'names the port "video", which the Service does not have: its port is rtp',
  });
});

test("a similar name is only searched among few ports, as a Service may have thousands", () => {
  const many = Array.from({ length: 8000 }, (_, i) => port(i + 1, { name: `port-${i + 1}` }));
  expect(decoded("port=1-5", many.slice(0, 100))).toMatchObject({
    reason: expect.stringMatching(/did you mean port-1\?$/),
  });
  expect(decoded("port=1-5", many)).toMatchObject({ reason: expect.stringMatching(/and 7995 more$/) });
});

test.each([
  ["", 'must be NAME=FIRST-LAST, or several with commas between, not ""'],
  ["rtp=5000", 'must be NAME=FIRST-LAST, or several with commas between, not "rtp=5000"'],
  ["rtp=5000-5009,", 'must be NAME=FIRST-LAST, or several with commas between, not ""'],
  ["rtp=-1-5", 'must be NAME=FIRST-LAST, or several with commas between, not "rtp=-1-5"'],
  ["rtp=0-5", 'must have port ranges from 1 to 65535, the smaller first, not "rtp=0-5"'],
  ["rtp=9-5", 'must have port ranges from 1 to 65535, the smaller first, not "rtp=9-5"'],
  ["rtp=1-65536", 'must have port ranges from 1 to 65535, the smaller first, not "rtp=1-65536"'],
  ["video=1-5", 'names the port "video", which the Service does not have: its ports are sip, rtp and web'],
  ["1-5", "must name a port before each range, such as sip=1-5"],
  ["=1-5", "must name a port before each range, such as sip=1-5"],
  ["webb=1-5", 'names the port "webb", which the Service does not have: did you mean web?'],
  ["rtp=1-5,rtp=5-9", "must not have a port twice, as 5 in rtp=1-5 and rtp=5-9"],
  ["rtp=1-9,web=1-9,sip=5-7", "must not have a port twice, as 5 in rtp=1-9 and sip=5-7"],
  [Array.from({ length: 101 }, (_, i) => `rtp=${i + 1}-${i + 1}`).join(), "can have 100 ranges, and has 101"],
])("the annotation %s is invalid", (text, reason) => {
  expect(decoded(text)).toEqual({ reason });
});
