// Collects the licences of all packages in a bundle, from the packages themselves.
import { readdirSync, readFileSync } from "node:fs";

/** Licences of code that may be bundled. Any other licence fails the build until a person has reviewed it. */
const ALLOWED = [
  "0BSD",
  "Apache-2.0",
  "BSD-2-Clause",
  "BSD-3-Clause",
  "BlueOak-1.0.0",
  "ISC",
  "MIT",
  "Python-2.0",
];

/**
 * Returns the licences of the packages in a bundle, as one text.
 *
 * @param metafile esbuild's, with input paths relative to the working directory
 * @throws Error naming a package whose licence is missing or not allowed
 */
export function thirdPartyLicenses(metafile) {
  const texts = new Map(bundledPackages(metafile).map(describePackage));
  const sections = [...texts.keys()].sort().map((name) => texts.get(name));
  const head = "nft-proxy contains the following packages, each under its own licence.";
  return `${[head, ...sections].join(`\n\n${"=".repeat(80)}\n\n`)}\n`;
}

/** Returns the folders of the packages whose files are in the bundle. A package may have several folders. */
function bundledPackages({ inputs }) {
  const folders = Object.keys(inputs).flatMap((path) => {
    const [folder] = /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path) ?? [];
    return folder === undefined ? [] : [folder];
  });
  return [...new Set(folders)];
}

function describePackage(folder) {
  const { name, version, license, repository } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"));
  if (!ALLOWED.includes(license))
    throw new Error(`${name} ${version} is licensed as ${license}: may it be bundled?`);
  const source = typeof repository === "string" ? repository : repository?.url;
  const head = [`${name} ${version}`, license, ...(source === undefined ? [] : [source])].join("\n");
  const files = readdirSync(folder).filter((file) => /^(?:licen[cs]e|notice|copying)/i.test(file));
  const texts = files.sort().map((file) => readFileSync(`${folder}/${file}`, "utf8").trim());
  return [`${name} ${version}`, [head, ...texts].join("\n\n")];
}
