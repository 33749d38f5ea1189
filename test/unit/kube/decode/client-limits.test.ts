import { expect, test } from "vitest";
import { clientLimitsOf } from "../../../../src/kube/decode/client-limits.ts";
import type { FieldDiagnostic } from "../../../../src/kube/decode/decode.ts";

function decoded(connections: string | null, rate: string | null) {
  const diagnostics: FieldDiagnostic[] = [];
  const annotations = {
    "nft-proxy.io/max-connections-per-client": connections,
    "nft-proxy.io/new-connections-per-client": rate,
  };
  const fields = clientLimitsOf({ name: "web", annotations }, diagnostics);
  return { fields, paths: diagnostics.map(({ path }) => path) };
}

test("a Service without the annotations has no limits", () => {
  expect(decoded(null, null)).toEqual({ fields: {}, paths: [] });
});

test("each annotation works alone, and both together", () => {
  const rate = { amount: 20, per: "second", burst: 40 };
  expect(decoded("100", null).fields).toEqual({ clientLimits: { connections: 100 } });
  expect(decoded(null, "20/second burst 40").fields).toEqual({ clientLimits: { rate } });
  expect(decoded("100", "20/second burst 40").fields).toEqual({ clientLimits: { connections: 100, rate } });
});

test("an invalid annotation is ignored with a warning, and the other one works", () => {
  expect(decoded("many", "20/second").fields).toEqual({
    clientLimits: { rate: { amount: 20, per: "second", burst: 20 } },
    invalidClientLimits:
      'nft-proxy.io/max-connections-per-client must be a number from 1 to 1000, not "many"',
  });
  const { fields, paths } = decoded("0", "often");
  expect(fields).toEqual({ invalidClientLimits: expect.stringMatching(/max-.*; nft-proxy\.io\/new-/) });
  expect(paths).toHaveLength(2);
});
