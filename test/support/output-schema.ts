import { readFileSync } from "node:fs";
import { Ajv } from "ajv";

/** The outputs of commands that have a schema. */
export type OutputName = "connections" | "fleet" | "refusals" | "trace" | "version";

/** Returns the differences of an output, as parsed JSON, from its schema in schemas/; none when it is as that says. */
export function schemaErrors(name: OutputName, output: unknown): readonly string[] {
  const text = readFileSync(new URL(`../../schemas/${name}.schema.json`, import.meta.url), "utf8");
  const validate = new Ajv().compile(JSON.parse(text));
  // As a script sees it: without the fields that are undefined.
  validate(JSON.parse(JSON.stringify(output)));
  return (validate.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`);
}
