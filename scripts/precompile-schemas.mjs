// Compiles schemas at build time: a small command would spend a third of its time on it.
import { Ajv } from "ajv";
import standalone from "ajv/dist/standalone/index.js";
import { transform } from "esbuild";
import { tsImport } from "tsx/esm/api";

/**
 * An esbuild plugin. A module NAME.validator.ts exports functions that compile a schema; the bundle has functions of
 * the same names that return what these make.
 */
export const precompileSchemas = {
  name: "precompile-schemas",
  setup(build) {
    build.onLoad({ filter: /\.validator\.ts$/ }, async ({ path }) => {
      const compilers = Object.entries(await tsImport(path, import.meta.url));
      const functions = await Promise.all(
        compilers.map(([name, compile]) => compiledFunction(name, compile())),
      );
      return { contents: functions.join("\n") };
    });
  },
};

/** A function that holds the code of a validator and returns it; the engine parses it when it is called. */
async function compiledFunction(name, validate) {
  // Only what the instance says of the code's form matters: the code is that of the validator.
  const code = standalone(new Ajv({ code: { source: true } }), validate);
  const body = `export function ${name}() { const module = {}; ${code}; return module.exports; }`;
  return (await transform(body, { minify: true })).code;
}
