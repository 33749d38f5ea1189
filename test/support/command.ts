import { fileURLToPath } from "node:url";
import type { Reporter } from "../../src/cli/command.ts";
import type { ScenarioName } from "./lab/scenario.ts";

/** The built product. */
export const bundle: string = fileURLToPath(new URL("../../dist/nft-proxy.js", import.meta.url));

/** Node's option for a program whose pauses and timeouts of 5 and 30 s are to take a second. */
export const SHORT_TIMEOUTS: string = `--import=${fileURLToPath(new URL("./short-timeouts.mjs", import.meta.url))}`;

/** The flags with which the towns' scenarios were recorded. */
export const townFlags: readonly string[] = [
  "--hostname-override=node-1",
  "--cluster-cidr=10.244.0.0/16,fd00:244::/32",
  "--nodeport-addresses=primary",
];

/** The objects of a recorded town. */
export function townObjects(name: ScenarioName): string {
  return fileURLToPath(new URL(`../fixtures/${name}/objects`, import.meta.url));
}

/** A reporter for a command that runs without the program. It keeps the notices, and shows no steps. */
export function quietReporter(): Reporter & { readonly notices: string[] } {
  const notices: string[] = [];
  return { notices, step: () => {}, notice: (lines) => void notices.push(...lines) };
}
