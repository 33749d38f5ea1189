import { describe, expect, test } from "vitest";
import { DEFAULT_PASSIVE_HEALTH_CHECK } from "../../../../src/features/passive-health-checks/check.ts";
import { ALL_FEATURES } from "../../../../src/features/selection.ts";
import { annotatedFields, SERVICE_ANNOTATIONS } from "../../../../src/kube/decode/annotations.ts";
import type { FieldDiagnostic } from "../../../../src/kube/decode/decode.ts";
import type { EnabledFeatures } from "../../../../src/model/features.ts";
import { port } from "../../../support/build.ts";

const WEB = port(80, { name: "web" });
const DNS = port(53, { name: "dns", protocol: "udp" });
const SIGNAL = port(36_412, { name: "signal", protocol: "sctp" });

function decoded(
  annotations: Readonly<Record<string, string | null>>,
  given = [WEB],
  features: EnabledFeatures = ALL_FEATURES,
) {
  const diagnostics: FieldDiagnostic[] = [];
  const named = Object.entries(annotations).map(([name, text]) => [`nft-proxy.io/${name}`, text]);
  const metadata = { name: "web", annotations: Object.fromEntries(named) };
  const { ignoredAnnotations, ...fields } = annotatedFields(
    SERVICE_ANNOTATIONS,
    metadata,
    features,
    diagnostics,
    { ports: given, invalidPorts: [] },
  );
  const invalid = ignoredAnnotations?.map(
    ({ annotation, reason, consequence }) => `${annotation} ${reason}: ${consequence}`,
  );
  return {
    fields,
    ...(invalid && { invalid }),
    reasons: diagnostics.map(({ reason }) => reason),
    paths: diagnostics.map(({ path }) => path),
  };
}

const NOTHING_WRONG = { reasons: [], paths: [] };

test("annotations of features that are off are neither read nor checked, and say which feature they need", () => {
  const given = { scheduler: "fast", "port-ranges": "web=10000-10999", "drain-timeout": "60s" };
  const only = { "connection-life": "all", "port-ranges": ["shop"] } as const;
  const off = (feature: string) =>
    `needs the feature ${feature}, which is off in namespace default: see --features`;
  expect(decoded(given, [WEB], only)).toEqual({
    fields: { features: { "connection-life": { drainTimeoutMs: 60_000 } } },
    invalid: [
      `nft-proxy.io/port-ranges ${off("port-ranges")}: it is ignored`,
      `nft-proxy.io/scheduler ${off("schedulers")}: it is ignored`,
    ],
    reasons: [off("port-ranges"), off("schedulers")],
    paths: ["port-ranges", "scheduler"].map((name) => `metadata.annotations["nft-proxy.io/${name}"]`),
  });
});

test("a Service without annotations, or with null, has no fields of them", () => {
  expect(decoded({})).toEqual({ fields: {}, ...NOTHING_WRONG });
  const names = ["port-ranges", "scheduler", "passive-health-check", "max-connections-per-client"];
  const others = [
    "new-connections-per-client",
    "on-endpoint-removed",
    "drain-timeout",
    "connection-timeouts",
  ];
  const nulls = Object.fromEntries([...names, ...others].map((name) => [name, null]));
  expect(decoded(nulls)).toEqual({ fields: {}, ...NOTHING_WRONG });
});

test("an invalid annotation is ignored with a warning at its path", () => {
  expect(decoded({ "port-ranges": "web" })).toEqual({
    fields: {},
    invalid: [expect.stringMatching(/^nft-proxy\.io\/port-ranges must be .* not "web": no range is served$/)],
    reasons: [expect.stringMatching(/^must be .* not "web"; no range is served$/)],
    paths: ['metadata.annotations["nft-proxy.io/port-ranges"]'],
  });
});

test.each([
  ["schedular", "is not an annotation of nft-proxy (did you mean scheduler?)"],
  ["weather", "is not an annotation of nft-proxy"],
  ["weight", "has no effect: it is an annotation of EndpointSlices"],
])("an unknown annotation %s has no effect, and says so", (name, reason) => {
  expect(decoded({ [name]: "x" })).toEqual({
    fields: {},
    invalid: [`nft-proxy.io/${name} ${reason}: it is ignored`],
    reasons: [reason],
    paths: [`metadata.annotations["nft-proxy.io/${name}"]`],
  });
});

test("of thousands of unknown annotations, the first three are reported, and no impossible name", () => {
  const names = Array.from({ length: 5000 }, (_, index) => `x-${10_000 + index}`);
  const given = Object.fromEntries([...names, "a\u001b[2J", "b".repeat(64)].map((name) => [name, "x"]));
  expect(decoded(given).paths).toEqual(
    [10_000, 10_001, 10_002].map((number) => `metadata.annotations["nft-proxy.io/x-${number}"]`),
  );
});

test("ranges are given to their port", () => {
  const ranges = [{ first: 8000, last: 8009 }];
  expect(decoded({ "port-ranges": "web=8000-8009" }).fields).toEqual({
    features: { "port-ranges": { byPort: new Map([["web", ranges]]) } },
  });
});

describe("passive health checks", () => {
  const watched = (text: string, ports = [WEB]) => decoded({ "passive-health-check": text }, ports);

  test("the annotation is the Service's setting", () => {
    const fields = { features: { "passive-health-checks": { check: DEFAULT_PASSIVE_HEALTH_CHECK } } };
    expect(watched("on")).toEqual({ fields, ...NOTHING_WRONG });
    expect(watched("off", [DNS])).toEqual({
      fields: { features: { "passive-health-checks": { check: "off" } } },
      ...NOTHING_WRONG,
    });
  });

  test("an invalid annotation is ignored with a warning", () => {
    const { fields, invalid, reasons } = watched("sometimes");
    expect(fields).toEqual({});
    expect(invalid).toEqual([
      expect.stringMatching(/passive-health-check must .*not "sometimes": it is ignored/),
    ]);
    expect(reasons).toEqual([expect.stringMatching(/; it is ignored$/)]);
  });

  test("ports of other protocols are named, and a Service without a TCP port is not watched", () => {
    expect(watched("on", [WEB, DNS])).toMatchObject({
      fields: { features: { "passive-health-checks": { check: DEFAULT_PASSIVE_HEALTH_CHECK } } },
      reasons: ["is for TCP: does not watch dns (udp)"],
    });
    expect(watched("on", [DNS])).toMatchObject({
      fields: {},
      invalid: [expect.stringMatching(/passive-health-check is for TCP/)],
    });
  });
});

describe("connection timeouts", () => {
  const timed = (text: string, ports = [WEB]) => decoded({ "connection-timeouts": text }, ports);

  test("the annotation gives the timeouts", () => {
    expect(timed("udp=5s,tcp-established=2h", [WEB, DNS])).toEqual({
      fields: { features: { "connection-timeouts": { "tcp-established": 7200, udp: 5 } } },
      ...NOTHING_WRONG,
    });
  });

  test("an invalid annotation is ignored as a whole, with a warning", () => {
    const { fields, invalid, reasons } = timed("tcp-established=2h,tcp-close=2h");
    expect(fields).toEqual({});
    expect(invalid).toEqual([expect.stringContaining('not "2h"')]);
    expect(reasons).toEqual([expect.stringMatching(/; it is ignored$/)]);
  });

  test("values without a port of their protocol are named, and a list of only such values is ignored", () => {
    expect(timed("udp=5s,udp-stream=6s,tcp-established=2h")).toMatchObject({
      fields: { features: { "connection-timeouts": { "tcp-established": 7200, udp: 5, "udp-stream": 6 } } },
      reasons: ["has values that no port of the Service uses: udp, udp-stream"],
    });
    const reason = "has no value for a port of the Service: udp are for other protocols";
    expect(timed("udp=5s")).toMatchObject({
      fields: {},
      invalid: [`nft-proxy.io/connection-timeouts ${reason}: it is ignored`],
      reasons: [`${reason}; it is ignored`],
    });
  });

  test("SCTP ports are named, as nft cannot set their timeouts", () => {
    expect(timed("tcp-established=2h", [WEB, SIGNAL]).reasons).toEqual([
      "has no effect on SCTP, the protocol of signal: nft cannot set its timeouts",
    ]);
    expect(timed("tcp-established=2h", [SIGNAL]).invalid).toHaveLength(1);
  });

  test("a warning names few of many ports, as it is kept for each Service", () => {
    const many = (protocol: "udp" | "sctp") =>
      Array.from({ length: 1000 }, (_, n) => port(1000 + n, { name: `p${n}`, protocol }));
    const texts = [
      decoded({ "passive-health-check": "on" }, [WEB, ...many("udp")]).reasons,
      timed("tcp-established=2h", [WEB, ...many("sctp")]).reasons,
    ];
    const few = expect.stringMatching(/p0.* and 995 more/);
    expect(texts).toEqual([[few], [few]]);
  });
});

describe("client limits", () => {
  const limited = (connections: string | null, rate: string | null) =>
    decoded({ "max-connections-per-client": connections, "new-connections-per-client": rate });

  test("each annotation works alone, and both together", () => {
    const rate = { amount: 20, per: "second", burst: 40 };
    expect(limited("100", null).fields).toEqual({ features: { "client-limits": { connections: 100 } } });
    expect(limited(null, "20/second burst 40").fields).toEqual({ features: { "client-limits": { rate } } });
    expect(limited("100", "20/second burst 40").fields).toEqual({
      features: { "client-limits": { connections: 100, rate } },
    });
  });

  test("an invalid annotation is ignored with a warning, and the other one works", () => {
    expect(limited("many", "20/second")).toMatchObject({
      fields: { features: { "client-limits": { rate: { amount: 20, per: "second", burst: 20 } } } },
      invalid: [
        'nft-proxy.io/max-connections-per-client must be a number from 1 to 1000, not "many": it is ignored',
      ],
    });
    const { fields, invalid, paths } = limited("0", "often");
    expect(fields).toEqual({});
    expect(invalid).toEqual([
      expect.stringMatching(/^nft-proxy\.io\/max-/),
      expect.stringMatching(/^nft-proxy\.io\/new-/),
    ]);
    expect(paths).toHaveLength(2);
  });
});

describe("the life of connections", () => {
  const living = (onRemoved: string | null, drain: string | null) =>
    decoded({ "on-endpoint-removed": onRemoved, "drain-timeout": drain });

  test("each annotation works alone, and both together", () => {
    const lifeOf = (...given: Parameters<typeof living>) =>
      living(...given).fields.features?.["connection-life"];
    expect(lifeOf("keep", null)).toEqual({ onEndpointRemoved: "keep" });
    expect(lifeOf(null, "60s")).toEqual({ drainTimeoutMs: 60_000 });
    expect(lifeOf("reset", "1m")).toEqual({ onEndpointRemoved: "reset", drainTimeoutMs: 60_000 });
  });

  test("an invalid annotation is ignored with a warning, and the other one works", () => {
    expect(living("reset", "never")).toMatchObject({
      fields: { features: { "connection-life": { onEndpointRemoved: "reset" } } },
      invalid: [
        expect.stringMatching(/^nft-proxy\.io\/drain-timeout must be .* not "never": it is ignored$/),
      ],
      paths: ['metadata.annotations["nft-proxy.io/drain-timeout"]'],
    });
  });
});
