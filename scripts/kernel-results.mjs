// kernel-results.mjs DIR RELEASE...: prints a table of the results that kernels.sh wrote to DIR, and each
// failed test. For a kernel that did not end, takes the results from its log.
import { readFileSync } from "node:fs";
import { basename, join } from "node:path";

const [dir, ...releases] = process.argv.slice(2);
const rows = releases.map((release) => {
  const text = readFileSync(join(dir, `${release}.json`), "utf8");
  try {
    return { release, ...JSON.parse(text) };
  } catch {
    return { release, kernel: `${release} (did not end)`, seconds: 0, results: printed(release) };
  }
});
const files = [
  ...new Set(rows.flatMap(({ results }) => (results?.testResults ?? []).map(({ name }) => basename(name)))),
].sort();

/** Returns the results that the log has for each test of a kernel that was stopped. */
function printed(release) {
  const files = new Map();
  const line = /^ ([✓×]) \|kernels\| (\S+) > (.*?)(?: \d+ms)?$/gm;
  for (const [, mark, name, fullName] of readFileSync(join(dir, `${release}.log`), "utf8").matchAll(line)) {
    const assertionResults = files.get(name) ?? [];
    const status = mark === "✓" ? "passed" : "failed";
    files.set(name, [
      ...assertionResults,
      { status, fullName, failureMessages: [`see ${join(dir, `${release}.log`)}`] },
    ]);
  }
  return { testResults: [...files].map(([name, assertionResults]) => ({ name, assertionResults })) };
}

/**
 * Returns the numbers of passed and of all tests of one file, and whether the file failed outside its tests.
 */
function cell(results, file) {
  const found = results?.testResults.find(({ name }) => basename(name) === file);
  if (found === undefined) return "-";
  const passed = found.assertionResults.filter(({ status }) => status === "passed").length;
  return `${passed}/${found.assertionResults.length}${found.status === "failed" && passed === found.assertionResults.length ? " (file failed)" : ""}`;
}

console.log(`| kernel | minutes | ${files.map((file) => file.replace(".test.ts", "")).join(" | ")} |`);
console.log(`| --- | --- |${" --- |".repeat(files.length)}`);
for (const { kernel, seconds, results } of rows) {
  console.log(
    `| ${kernel} | ${(seconds / 60).toFixed(1)} | ${files.map((file) => cell(results, file)).join(" | ")} |`,
  );
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
