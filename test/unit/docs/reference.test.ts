import { describe, expect, test } from "vitest";
import type { Flag } from "../../../src/base/option.ts";
import { FLAGS } from "../../../src/cli/flags.ts";
import { COMMANDS } from "../../../src/cli/program/commands.ts";
import { defaultText } from "../../../src/config/flags.ts";
import { IGNORED_FIELDS } from "../../../src/config/ignored-settings.ts";
import { FIELDS } from "../../../src/config/options.ts";
import { configurationSchema } from "../../../src/config/schema.ts";
import { Metrics } from "../../../src/daemon/metrics/metrics.ts";
import { FEATURES } from "../../../src/features/registry.ts";
import { annotationRows } from "../../support/annotation-rows.ts";
import { addFeatureMetrics, scrapedParts } from "../../support/metric-values.ts";

/**
 * deploy/reference.md and the schema of the configuration are made from what the code says of itself;
 * `npx vitest run --project unit test/unit/docs -u` writes them anew.
 */
const REFERENCE = "../../../deploy/reference.md";

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n");
}

function flagName({ name, alias }: Flag): string {
  return alias === undefined ? `\`--${name}\`` : `\`--${name}\`, \`-${alias}\``;
}

function quotedDefault(flag: Flag): string {
  const text = defaultText(flag);
  return text === "" ? "" : `\`${text}\``;
}

function flagRows(kind: Flag["target"]["kind"]): string[][] {
  return FLAGS.filter(({ target }) => target.kind === kind).map((flag) => [
    flagName(flag),
    flag.target.kind === "field" ? `\`${flag.target.path}\`` : "",
    quotedDefault(flag),
    flag.description,
  ]);
}

function usedBy(flag: Flag): string {
  const users = COMMANDS.filter(({ flags }) => flags.includes(flag.name)).map(({ name }) => name);
  return users.length === 0 ? "all" : users.join(", ");
}

async function metricRows(): Promise<string[][]> {
  const metrics = new Metrics();
  addFeatureMetrics(metrics);
  metrics.readFrom(scrapedParts());
  const rows = await metrics.registry.getMetricsAsJSON();
  return rows.map(({ name, type, help }) => [`\`${name}\``, String(type), help]).sort();
}

interface SchemaPart {
  readonly properties?: Readonly<Record<string, SchemaPart>>;
}

function leafPaths({ properties = {} }: SchemaPart, prefix = ""): string[] {
  return Object.entries(properties).flatMap(([key, part]) =>
    part.properties === undefined ? [`${prefix}${key}`] : leafPaths(part, `${prefix}${key}.`),
  );
}

/** How fields are honoured whose meaning differs from kube-proxy's, by path. */
const NOTES = new Map(
  FIELDS.flatMap(({ path, note }) => (note === undefined ? [] : [[path, note] as const])),
);

function fieldRows(): string[][] {
  const reasons = new Map(IGNORED_FIELDS.map(({ path, reason }) => [path, reason]));
  const paths = leafPaths(configurationSchema() as SchemaPart).filter(
    (path) => !path.startsWith("nftProxy.") && path !== "apiVersion" && path !== "kind",
  );
  return paths.sort().map((path) => {
    const [reason, note] = [reasons.get(path), NOTES.get(path)];
    if (reason !== undefined) return [`\`${path}\``, "ignored", reason];
    return [`\`${path}\``, note === undefined ? "honoured" : "translated", note ?? ""];
  });
}

async function reference(): Promise<string> {
  const commands = FLAGS.filter(({ target }) => target.kind === "command");
  return `# Reference

Generated from the code by \`test/unit/docs/reference.test.ts\`: do not edit.

## Commands

${table(
  ["command", "does"],
  COMMANDS.map(({ name, summary }) => [`\`nft-proxy ${name}\``, summary]),
)}

## Flags of commands

${table(
  ["flag", "commands", "what it does"],
  commands.map((flag) => [flagName(flag), usedBy(flag), flag.description]),
)}

## Flags and fields of the configuration

With \`--config\`, the file takes precedence over flags. The exceptions are \`--hostname-override\`, \`--master\`,
logging and the fields of \`nftProxy\`: there, the flag takes precedence.

${table(["flag", "field", "default", "meaning"], flagRows("field"))}

## Accepted and ignored

Flags:

${table(
  ["flag", "why"],
  FLAGS.flatMap((flag) => (flag.target.kind === "ignored" ? [[flagName(flag), flag.target.reason]] : [])),
)}

## Fields of KubeProxyConfiguration

Every field of \`kubeproxy.config.k8s.io/v1alpha1\`. An ignored field is reported once, if its value asks for
something other than nft-proxy does.

${table(["field", "effect", "how or why"], fieldRows())}

## Annotations

An annotation has no effect unless \`--features\` enables its feature in the namespace of the object:
[features](../docs/features.md). Each feature is off by default.

${table(["annotation", "values", "without it", "feature", "who may set it", "cost while it is used"], annotationRows(FEATURES))}

## Metrics

${table(["name", "type", "meaning"], await metricRows())}
`;
}

describe("deploy/reference.md", () => {
  test("has every field that is ignored or translated", () => {
    const paths = fieldRows().map(([path = ""]) => path.slice(1, -1));
    expect(paths).toEqual(expect.arrayContaining(IGNORED_FIELDS.map(({ path }) => path)));
    expect(paths).toEqual(expect.arrayContaining([...NOTES.keys()]));
  });

  test("documents every command, flag, field and metric that there is", async () => {
    await expect(await reference()).toMatchFileSnapshot(REFERENCE);
  });
});

describe("schemas/kubeproxyconfiguration.schema.json", () => {
  test("is made of the table of options", async () => {
    const text = `${JSON.stringify(configurationSchema(), null, 2)}\n`;
    await expect(text).toMatchFileSnapshot("../../../schemas/kubeproxyconfiguration.schema.json");
  });
});
