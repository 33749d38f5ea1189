// release-check.mjs [--notes] [vVERSION]: checks that the project in this folder is ready for the release of
// its version, and that the tag, if given, has the same version. --notes prints the changelog's section of
// the version instead of "ready". If it is not ready, prints one line for each reason and exits with 1.
import { readFileSync } from "node:fs";

const args = process.argv.slice(2);
const [tag] = args.filter((argument) => !argument.startsWith("--"));
const read = (path) => readFileSync(path, "utf8");
const { version } = JSON.parse(read("package.json"));

const faults = [
  ...(tag === undefined || tag === `v${version}` ? [] : [`the tag is ${tag}, package.json says ${version}`]),
  ...versionFaults(),
  ...changelogFaults(),
];
if (faults.length > 0) {
  process.stderr.write(`${faults.map((fault) => `not ready: ${fault}`).join("\n")}\n`);
  process.exitCode = 1;
} else {
  process.stdout.write(
    args.includes("--notes") ? `${section(version)}\n` : `${version} is ready to be released\n`,
  );
}

/** Returns a message for each place that names another version than package.json. */
function versionFaults() {
  const places = [
    ["package-lock.json", /^ {2}"version": "([^"]*)"/m],
    ["Dockerfile", /^ARG VERSION=(\S+)$/m],
    ["deploy/base/kustomization.yaml", /newTag: "?([^\s"}]+)/],
    ["deploy/ci/github-workflow.yaml", /NFT_PROXY: \S+:(\S+)$/m],
  ];
  return places.flatMap(([path, pattern]) => {
    const found = pattern.exec(read(path))?.[1];
    return found === version ? [] : [`${path} names version ${found ?? "none"}, package.json ${version}`];
  });
}

/**
 * Checks that the changelog has a dated section with entries for the version, and no entries under
 * Unreleased.
 */
function changelogFaults() {
  const own = section(version);
  const isDated = new RegExp(`^## ${version.replaceAll(".", "\\.")} - \\d{4}-\\d\\d-\\d\\d$`, "m").test(
    read("CHANGELOG.md"),
  );
  return [
    ...(isDated ? [] : [`CHANGELOG.md has no heading "## ${version} - YYYY-MM-DD"`]),
    ...(isDated && !/^- /m.test(own) ? [`CHANGELOG.md lists nothing for ${version}`] : []),
    ...(/^- /m.test(section("Unreleased")) ? ["CHANGELOG.md still has entries under Unreleased"] : []),
  ];
}

/**
 * Returns the text of a second-level section of the changelog without empty subsections, or "" if there is
 * none.
 */
function section(heading) {
  const sections = read("CHANGELOG.md").split(/^## /m);
  const found =
    sections.find((text) => text.startsWith(`${heading}\n`) || text.startsWith(`${heading} - `)) ?? "";
  const [, ...parts] = found.slice(found.indexOf("\n")).split(/^(?=### )/m);
  return parts
    .filter((part) => /^- /m.test(part))
    .join("")
    .trim();
}
