// Checks in which directions the folders of src import each other (CONTRIBUTING.md, "The tree"). Prints each
// import in a wrong direction, and each circle of folders or files. Type imports count, too. Exits with 1 if
// it finds one. Usage: node scripts/import-directions.mjs [folder of sources]
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize, relative } from "node:path";

/**
 * Permitted imports of each layer besides itself: other layers, Node's modules and packages. "*" permits all.
 */
const LAYERS = {
  base: { layers: [], packages: ["leven"] },
  model: { layers: ["base"], packages: [] },
  nft: { layers: ["base"], packages: ["ajv"] },
  netlink: { layers: ["nft", "base"], packages: [] },
  ruleset: { layers: ["model", "nft", "base"], packages: ["node:crypto"] },
  features: { layers: ["conntrack", "kernel", "ruleset", "nft", "model", "base"], packages: ["node:net"] },
  trace: { layers: ["nft", "base"], packages: [] },
  config: { layers: ["features", "model", "base"], packages: ["ajv", "yaml"] },
  kube: { layers: ["features", "model", "base"], packages: ["*"] },
  kernel: { layers: ["netlink", "nft", "model", "base"], packages: ["*"] },
  conntrack: { layers: ["kernel", "ruleset", "nft", "model", "base"], packages: ["*"] },
  socket: {
    layers: ["conntrack", "config", "kube", "kernel", "features", "ruleset", "nft", "model", "base"],
    packages: ["*"],
  },
  sync: {
    layers: ["conntrack", "config", "kube", "kernel", "features", "ruleset", "nft", "model", "base"],
    packages: ["*"],
  },
  drift: { layers: ["sync", "kernel", "netlink", "nft", "base"], packages: ["*"] },
  inspect: {
    layers: [
      "conntrack",
      "sync",
      "socket",
      "config",
      "kube",
      "kernel",
      "trace",
      "features",
      "ruleset",
      "netlink",
      "nft",
      "model",
      "base",
    ],
    packages: ["*"],
  },
  daemon: {
    layers: [
      "conntrack",
      "sync",
      "drift",
      "socket",
      "config",
      "kube",
      "kernel",
      "features",
      "ruleset",
      "netlink",
      "nft",
      "model",
      "base",
    ],
    packages: ["*"],
  },
  cli: { layers: ["*"], packages: ["*"] },
};

const root = process.argv[2] ?? "src";
const files = readdirSync(root, { recursive: true, withFileTypes: true })
  .filter((entry) => entry.isFile() && entry.name.endsWith(".ts"))
  .map((entry) => relative(root, join(entry.parentPath, entry.name)))
  .sort();
const imports = files.flatMap(importsOf);
const complaints = [...imports.flatMap(wrongDirection), ...circles(dirname), ...circles((file) => file)];
for (const complaint of complaints) console.error(complaint);
process.exit(complaints.length === 0 ? 0 : 1);

/**
 * Returns each import, re-export and dynamic import of a file. `target` is a file of the sources, or
 * undefined.
 */
function importsOf(file) {
  const text = readFileSync(join(root, file), "utf8");
  return [...text.matchAll(/(?:^(?:import|export|\}).*? from |^import |\bimport\()"([^"]+)"/gm)].map(
    ([, name]) => {
      const target = name.startsWith(".") ? normalize(join(dirname(file), name)) : undefined;
      return { file, name, target };
    },
  );
}

function wrongDirection({ file, name, target }) {
  const layer = layerOf(file);
  const allowed = LAYERS[layer];
  if (allowed === undefined)
    return [`${file}: src/${layer} is no known folder (scripts/import-directions.mjs)`];
  if (target === undefined) return refuse(file, name, allowed.packages);
  const to = layerOf(target);
  // The schemas are beside the sources, and every layer may import them.
  return to === layer || to === ".." ? [] : refuse(file, to, allowed.layers);
}

function refuse(file, imported, allowed) {
  if (allowed.includes(imported) || allowed.includes("*")) return [];
  return [`${file} imports ${imported}, and may import ${allowed.join(", ") || "nothing"}`];
}

function layerOf(file) {
  return file.split("/")[0];
}

/**
 * Returns a message for each circle of imports among files, or among folders and their sub-folders.
 * @param placeOf maps a file to its folder, or to itself
 */
function circles(placeOf) {
  const edges = new Map();
  for (const { file, target } of imports) {
    if (target === undefined || target.startsWith("..")) continue;
    const [from, to] = [placeOf(file), placeOf(target)];
    if (from === to) continue;
    if (!edges.has(from)) edges.set(from, new Map());
    edges.get(from).set(to, `${file} imports ${target}`);
  }
  const found = [];
  const [visiting, done] = [[], new Set()];
  const visit = (place) => {
    if (done.has(place)) return;
    const start = visiting.indexOf(place);
    if (start >= 0) {
      const circle = [...visiting.slice(start), place];
      const reasons = circle.slice(1).map((to, at) => `  ${edges.get(circle[at]).get(to)}`);
      found.push([`circle of imports: ${circle.join(" -> ")}`, ...reasons].join("\n"));
      return;
    }
    visiting.push(place);
    for (const to of edges.get(place)?.keys() ?? []) visit(to);
    visiting.pop();
    done.add(place);
  };
  for (const place of [...edges.keys()].sort()) visit(place);
  return found;
}
