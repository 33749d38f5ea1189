// kernel-results.mjs DIR RELEASE...: prints a table of the results that kernels.sh left in DIR, and each failed test.
import { readFileSync } from "node:fs";
import { basename, join } from "node:path";

const [dir, ...releases] = process.argv.slice(2);
const rows = releases.map((release) => {
  const text = readFileSync(join(dir, `${release}.json`), "utf8");
  try {
    return { release, ...JSON.parse(text) };
  } catch {
    return { release, kernel: "did not end", seconds: 0, results: null };
  }
});
const files = [
  ...new Set(rows.flatMap(({ results }) => (results?.testResults ?? []).map(({ name }) => basename(name)))),
].sort();

/** Passed and all tests of one file, and whether it failed outside its tests. */
function cell(results, file) {
  const found = results?.testResults.find(({ name }) => basename(name) === file);
  if (found === undefined) return "-";
  const passed = found.assertionResults.filter(({ status }) => status === "passed").length;
  return `${passed}/${found.assertionResults.length}${found.status === "failed" && passed === found.assertionResults.length ? " (file failed)" : ""}`;
}

console.log(`| kernel | minutes | ${files.map((file) => file.replace(".test.ts", "")).join(" | ")} |`);
console.log(`| --- | --- |${" --- |".repeat(files.length)}`);
for (const { kernel, seconds, results } of rows) {
  console.log(`| ${kernel} | ${(seconds / 60).toFixed(1)} | ${files.map((file) => cell(results, file)).join(" | ")} |`);
}
for (const { kernel, results } of rows) {
  for (const { assertionResults, name, message } of results?.testResults ?? []) {
    const failed = assertionResults.filter(({ status }) => status === "failed");
    for (const { fullName, failureMessages } of failed)
      console.log(`\n${kernel}: ${fullName}\n${failureMessages.join("\n")}`);
    if (failed.length === 0 && message) console.log(`\n${kernel}: ${basename(name)}\n${message}`);
  }
}
process.exitCode = rows.every(({ results }) => results?.success === true) ? 0 : 1;
