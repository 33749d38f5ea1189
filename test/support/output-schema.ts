import { readFileSync } from "node:fs";
import { Ajv } from "ajv";

/** The command outputs that have a schema. */
export type OutputName = "connections" | "explain" | "fleet" | "observe" | "refusals" | "trace" | "version";

/**
 * Returns the violations of an output's schema in schemas/. Empty if the output, as parsed JSON, is valid.
 */
export function schemaErrors(name: OutputName, output: unknown): readonly string[] {
  const text = readFileSync(new URL(`../../schemas/${name}.schema.json`, import.meta.url), "utf8");
  const validate = new Ajv().compile(JSON.parse(text));
  // Removes undefined fields, as in the printed JSON.
  validate(JSON.parse(JSON.stringify(output)));
  return (validate.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`);
}
