import { expect, test } from "vitest";
import { HistogramCounts } from "../../../src/base/histogram-counts.ts";
import { Metrics } from "../../../src/daemon/metrics/metrics.ts";

test("the buckets of a histogram count all observations up to their bound", async () => {
  const counts = new HistogramCounts([1, 10]);
  for (const value of [0.5, 1, 2, 30]) counts.add(value);
  const metrics = new Metrics();
  const samples = () => counts.samples("nft_proxy_test_seconds", { service: "cart" });
  metrics.addFeature({
    metrics: { nft_proxy_test_seconds: { kind: "histogram", help: "Test", labels: ["service"], samples } },
  });
  const lines = (await metrics.registry.metrics()).split("\n");
  expect(lines.filter((line) => line.includes("nft_proxy_test_seconds"))).toEqual([
    "# HELP nft_proxy_test_seconds Test",
    "# TYPE nft_proxy_test_seconds histogram",
    'nft_proxy_test_seconds_bucket{service="cart",le="1"} 2',
    'nft_proxy_test_seconds_bucket{service="cart",le="10"} 3',
    'nft_proxy_test_seconds_bucket{service="cart",le="+Inf"} 4',
    'nft_proxy_test_seconds_sum{service="cart"} 33.5',
    'nft_proxy_test_seconds_count{service="cart"} 4',
  ]);
});
