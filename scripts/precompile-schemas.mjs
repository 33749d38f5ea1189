// Compiles schemas at build time, because a short command would spend a third of its time on it.
import { Ajv } from "ajv";
import standalone from "ajv/dist/standalone/index.js";
import { transform } from "esbuild";
import { tsImport } from "tsx/esm/api";

/**
 * An esbuild plugin. A module NAME.validator.ts exports functions that compile a schema. The bundle has
 * functions of the same names that return the compiled validators.
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

/**
 * Returns the source of a function that returns a validator. The engine parses the validator only at the
 * call.
 */
async function compiledFunction(name, validate) {
  // Only the instance's code options matter here: the code itself comes from the validator.
  const code = standalone(new Ajv({ code: { source: true } }), validate);
  const body = `export function ${name}() { const module = {}; ${code}; return module.exports; }`;
  return (await transform(body, { minify: true })).code;
}
