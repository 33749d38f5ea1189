import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run } from "../../src/cli/commands/explain.ts";
import type { Explanation } from "../../src/inspect/explain/explanation.ts";
import { quietReporter } from "./command.ts";

/** The output of `explain` for some manifests, as text and as JSON. */
export interface Explained {
  readonly text: string;
  readonly explanations: readonly Explanation[];
  readonly json: {
    readonly explanations: readonly Explanation[];
    readonly notServed?: { readonly cause: string };
  };
}

const OPTIONS = {
  "hostname-override": "node-1",
  "cluster-cidr": "10.244.0.0/16,fd00:244::/32",
  "nodeport-addresses": "primary",
  features: "all",
};

/**
 * Runs `explain` for node-1 with the manifests in a new file, and every feature.
 * @param notice matches the warning that is expected; absent for none
 */
export async function explained(
  manifests: string,
  flags: Readonly<Record<string, string | true>>,
  notice?: RegExp,
): Promise<Explained> {
  const directory = await mkdtemp(join(tmpdir(), "nft-proxy-"));
  const file = join(directory, "objects.yaml");
  await writeFile(file, manifests);
  try {
    const argv = { ...OPTIONS, from: [file], ...flags };
    const text = await printed(argv, notice);
    const json = JSON.parse(await printed({ ...argv, output: "json" }, notice)) as Explained["json"];
    return { text, json, explanations: json.explanations };
  } finally {
    await rm(directory, { recursive: true });
  }
}

async function printed(
  given: Readonly<Record<string, string | true | string[]>>,
  notice: RegExp | undefined,
): Promise<string> {
  const argv = Object.fromEntries(
    Object.entries(given).map(([name, value]) => [name, value === true ? value : [value].flat()]),
  );
  const { notices, ...reporter } = quietReporter();
  const { output = "" } = await run(argv, reporter);
  const isExpected =
    notice === undefined ? notices.length === 0 : notices.length === 1 && notice.test(notices[0] ?? "");
  if (!isExpected) throw new Error(`other notices: ${notices.join("\n")}`);
  if (typeof output !== "string") throw new Error("explain prints all at once");
  return output;
}
