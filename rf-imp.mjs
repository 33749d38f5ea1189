const t = performance.now();
const r0 = process.memoryUsage().rss;
const m = await import(process.argv[2]);
console.log(
  process.argv[2],
  Object.keys(m).length,
  (performance.now() - t).toFixed(0) + "ms",
  ((process.memoryUsage().rss - r0) / 1e6).toFixed(1) + "MB",
  "total",
  (process.memoryUsage().rss / 1e6).toFixed(0),
);
