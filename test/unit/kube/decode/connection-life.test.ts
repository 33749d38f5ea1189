import { expect, test } from "vitest";
import { connectionLifeOf } from "../../../../src/kube/decode/connection-life.ts";
import type { FieldDiagnostic } from "../../../../src/kube/decode/decode.ts";

function decoded(onRemoved: string | null, drain: string | null) {
  const diagnostics: FieldDiagnostic[] = [];
  const annotations = {
    "nft-proxy.io/on-endpoint-removed": onRemoved,
    "nft-proxy.io/drain-timeout": drain,
  };
  const fields = connectionLifeOf({ name: "web", annotations }, diagnostics);
  return { fields, paths: diagnostics.map(({ path }) => path) };
}

test("each annotation works alone, both together, and a Service without them has nothing", () => {
  expect(decoded(null, null)).toEqual({ fields: {}, paths: [] });
  expect(decoded("keep", null).fields).toEqual({ onEndpointRemoved: "keep" });
  expect(decoded(null, "60s").fields).toEqual({ drainTimeoutMs: 60_000 });
  expect(decoded("reset", "1m").fields).toEqual({ onEndpointRemoved: "reset", drainTimeoutMs: 60_000 });
});

test("an invalid annotation is ignored with a warning, and the other one works", () => {
  expect(decoded("reset", "never")).toEqual({
    fields: {
      onEndpointRemoved: "reset",
      invalidConnectionLife: expect.stringMatching(/^nft-proxy\.io\/drain-timeout must be .* not "never"$/),
    },
    paths: ['metadata.annotations["nft-proxy.io/drain-timeout"]'],
  });
});
