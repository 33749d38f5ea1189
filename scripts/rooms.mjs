// Shows that a feature can be removed: deletes its folder in src/features and its two lines in the registry
// of a copy, compiles the rest, and runs the recorded packets of the town. Exits with 1 if one fails.
// Usage: node scripts/rooms.mjs [FEATURE...]; all features by default.
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

const COPY = ".cache/rooms";
const REGISTRY = "src/features/registry.ts";
/** What every feature uses. */
const SEAM = "seam";
const TOWN = ["test/unit/trace/town.test.ts", "test/unit/inspect/explain/town.test.ts"];

const all = readdirSync("src/features", { withFileTypes: true })
  .filter((entry) => entry.isDirectory() && entry.name !== SEAM)
  .map(({ name }) => name);
const wanted = process.argv.length > 2 ? process.argv.slice(2) : all;
const failed = wanted.filter((feature) => !isRemovable(feature));
for (const feature of failed) console.error(`rooms: the rest does not work without ${feature}`);
process.exit(failed.length === 0 ? 0 : 1);

function isRemovable(feature) {
  const folder = join(COPY, feature);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  for (const name of ["src", "test", "schemas", "package.json", "tsconfig.json", "vitest.config.ts"])
    cpSync(name, join(folder, name), { recursive: true });
  symlinkSync(resolve("node_modules"), join(folder, "node_modules"));
  rmSync(join(folder, "src/features", feature), { recursive: true });
  rmSync(join(folder, "test/features", feature), { recursive: true, force: true });
  removeLines(join(folder, REGISTRY), feature);
  const config = { extends: "./tsconfig.json", include: ["src"] };
  writeFileSync(join(folder, "tsconfig.rest.json"), JSON.stringify(config));
  return (
    succeeds(folder, "tsc", ["--noEmit", "-p", "tsconfig.rest.json"]) &&
    succeeds(folder, "vitest", ["run", "--project", "unit", "--reporter", "dot", ...TOWN])
  );
}

/** Removes the import of a feature, and its entry. */
function removeLines(path, feature) {
  const text = readFileSync(path, "utf8");
  const line = text.split("\n").find((one) => one.includes(`"./${feature}/feature.ts"`));
  const [, name] = /\{ (\w+) \}/.exec(line ?? "") ?? [];
  if (name === undefined) throw new Error(`${path} does not import ${feature}`);
  const rest = text.split("\n").filter((one) => one !== line && one.trim() !== `${name},`);
  writeFileSync(path, rest.join("\n"));
}

function succeeds(folder, program, args) {
  const { status, stdout } = spawnSync(resolve("node_modules/.bin", program), args, {
    cwd: folder,
    encoding: "utf8",
  });
  if (status !== 0) console.error(stdout);
  return status === 0;
}
