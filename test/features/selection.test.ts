import { expect, test } from "vitest";
import {
  ALL_FEATURES,
  FEATURE_NAMES,
  featureItems,
  parseFeature,
  parseFeatures,
} from "../../src/features/selection.ts";
import { type EnabledFeatures, isEnabledIn, offReason } from "../../src/model/features.ts";

test.each<[readonly string[], EnabledFeatures]>([
  [[], {}],
  [["none"], {}],
  [["all"], ALL_FEATURES],
  [["client-limits"], { "client-limits": "all" }],
  [["port-ranges@voip", "port-ranges@media", "port-ranges@voip"], { "port-ranges": ["media", "voip"] }],
  [["port-ranges@voip", "port-ranges"], { "port-ranges": "all" }],
  [["none", "schedulers@9"], { schedulers: ["9"] }],
  [["all@shop"], Object.fromEntries(FEATURE_NAMES.map((name) => [name, ["shop"]]))],
])("%j are features, and their shortest items mean the same", (items, features) => {
  expect(parseFeatures(items)).toEqual(features);
  expect(parseFeatures(featureItems(features))).toEqual(features);
});

test.each([
  "",
  "limits",
  "all@",
  "none@shop",
  "@shop",
  "port-ranges@Shop",
  "port-ranges@-shop",
  "port-ranges@a.b",
  `port-ranges@${"a".repeat(64)}`,
  "port-ranges@shop ",
  "constructor",
])("%j is not a feature", (item) => {
  expect(parseFeature(item)).toBeUndefined();
  expect(parseFeatures(["all", item])).toBeUndefined();
});

test("a feature is enabled in every namespace, in the named ones, or in none", () => {
  const features: EnabledFeatures = { "client-limits": "all", "port-ranges": ["voip"] };
  expect(isEnabledIn(features, "client-limits", "shop")).toBe(true);
  expect(["voip", "shop"].map((name) => isEnabledIn(features, "port-ranges", name))).toEqual([true, false]);
  expect(isEnabledIn(features, "schedulers", "voip")).toBe(false);
  expect(offReason(features, "port-ranges", "voip")).toBeUndefined();
  expect(offReason(features, "port-ranges", "shop")).toBe(
    "needs the feature port-ranges, which is off in namespace shop: see --features",
  );
});
