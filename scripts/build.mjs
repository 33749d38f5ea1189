// Bundles src/cli/program/main.ts into one file, dist/nft-proxy.js, which is also the package's bin. Writes
// the licences of the bundled packages beside it.
import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import { build } from "esbuild";
import { precompileSchemas } from "./precompile-schemas.mjs";
import { slimClientNode } from "./slim-client-node.mjs";
import { thirdPartyLicenses } from "./third-party-licenses.mjs";

const { version } = JSON.parse(readFileSync("package.json", "utf8"));

const { metafile } = await build({
  entryPoints: ["src/cli/program/main.ts"],
  outfile: "dist/nft-proxy.js",
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node20.19",
  minifySyntax: true,
  minifyWhitespace: true,
  legalComments: "none",
  metafile: true,
  plugins: [precompileSchemas, slimClientNode],
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
chmodSync("dist/nft-proxy.js", 0o755);
writeFileSync("dist/THIRD_PARTY_LICENSES", thirdPartyLicenses(metafile));
