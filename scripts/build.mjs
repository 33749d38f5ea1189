// Bundles src/cli/program/main.ts into one file, dist/nft-proxy.js, which is also the package's bin. Writes
// the licences of the bundled packages beside it.
// Usage: node scripts/build.mjs [FOLDER REGISTRY]. With both, FOLDER gets the bundle, which has the features
// of the file REGISTRY instead of those of src/features/registry.ts.
import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { build } from "esbuild";
import { precompileSchemas } from "./precompile-schemas.mjs";
import { slimClientNode } from "./slim-client-node.mjs";
import { thirdPartyLicenses } from "./third-party-licenses.mjs";

const [folder = "dist", registry] = process.argv.slice(2);
const { version } = JSON.parse(readFileSync("package.json", "utf8"));

const { metafile } = await build({
  entryPoints: ["src/cli/program/main.ts"],
  outfile: join(folder, "nft-proxy.js"),
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node20.19",
  minifySyntax: true,
  minifyWhitespace: true,
  legalComments: "none",
  metafile: true,
  plugins: [precompileSchemas, slimClientNode, ...(registry ? [withRegistry(resolve(registry))] : [])],
  // The package's main entry is a UMD module, whose parts esbuild does not find.
  alias: { "jsonc-parser": "jsonc-parser/lib/esm/main.js" },
  define: { __VERSION__: JSON.stringify(version) },
  banner: {
    // CommonJS dependencies inside an ES module bundle call require() for Node's own modules.
    js: '#!/usr/bin/env node\nimport { createRequire as __createRequire } from "node:module";const require = __createRequire(import.meta.url);',
  },
});
if (Object.keys(metafile.inputs).some((path) => path.includes("node_modules/ajv/dist/core"))) {
  throw new Error("the bundle contains the compiler of schemas: compile each in a file NAME.validator.ts");
}
chmodSync(join(folder, "nft-proxy.js"), 0o755);
writeFileSync(join(folder, "THIRD_PARTY_LICENSES"), thirdPartyLicenses(metafile));

/** Replaces the registry of features for all files but the replacement itself. */
function withRegistry(replacement) {
  const original = resolve("src/features/registry.ts");
  return {
    name: "with-registry",
    setup({ onResolve }) {
      onResolve({ filter: /\/registry\.ts$/ }, ({ path, resolveDir, importer }) => {
        const isReplaced = resolve(resolveDir, path) === original && importer !== replacement;
        return isReplaced ? { path: replacement } : undefined;
      });
    },
  };
}
