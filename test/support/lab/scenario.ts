import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { isDeepStrictEqual } from "node:util";
import { PATIENCE } from "../patience.ts";
import type { Lab } from "./lab.ts";
import type { Outcome, Probe } from "./outcome.ts";

/** The recorded clusters under test/fixtures. */
export type ScenarioName = "town" | "town-after";

/** A recorded cluster: objects, packets to send, and the outcome of each with kube-proxy. */
export interface Scenario {
  /** Absolute path of the folder with `objects/` and the other recordings. */
  readonly folder: string;
  /** Absolute path of the folder of object lists. */
  readonly objects: string;
  /** The name of the Node object that the lab's node stands for. */
  readonly node: string;
  readonly probes: readonly Probe[];
  /** The expected outcomes by probe id. */
  readonly expect: Readonly<Record<string, Outcome>>;
}

/**
 * Time for an answer that was missed once, seconds. It is longer on an emulated machine, which is 10 to 20
 * times slower.
 */
const SECOND_WAIT = PATIENCE.timeout / 12_000;

const fixtures = fileURLToPath(new URL("../../fixtures/", import.meta.url));

/** Reads a scenario from test/fixtures. */
export async function loadScenario(name: ScenarioName): Promise<Scenario> {
  const folder = join(fixtures, name);
  const recorded = JSON.parse(await readFile(join(folder, "scenario.json"), "utf8")) as Omit<
    Scenario,
    "folder"
  >;
  return { ...recorded, folder, objects: join(folder, recorded.objects) };
}

/**
 * Returns a tenth of a scenario's probes, because all probes take thousands of connections. Use it for rules
 * that test/kernel/towns.test.ts tests in full.
 */
export function everyTenth(scenario: Scenario): Scenario {
  const probes = scenario.probes.filter((_, index) => index % 10 === 0);
  const ids = new Set(probes.map(({ id }) => id));
  return {
    ...scenario,
    probes,
    expect: Object.fromEntries(Object.entries(scenario.expect).filter(([id]) => ids.has(id))),
  };
}

/**
 * Returns the differences between expected and seen outcomes, as one readable block for each probe. Empty if
 * all match.
 */
export function differences(scenario: Scenario, outcomes: ReadonlyMap<string, Outcome>): readonly string[] {
  return Object.entries(scenario.expect).flatMap(([id, expected]) => {
    const seen = outcomes.get(id);
    if (isDeepStrictEqual(seen, expected)) return [];
    return [`${id}\n  expected ${JSON.stringify(expected)}\n  seen     ${JSON.stringify(seen) ?? "nothing"}`];
  });
}

/**
 * Returns the lasting {@link differences}. Repeats probes that differ with more time for answers, so that a
 * delay of the machine is not mistaken for a rule that drops.
 */
export async function lastingDifferences(
  scenario: Scenario,
  lab: Pick<Lab, "probe">,
): Promise<readonly string[]> {
  const first = await lab.probe(scenario.probes);
  const again = scenario.probes.filter(({ id }) => !isDeepStrictEqual(first.get(id), scenario.expect[id]));
  const second = await lab.probe(again.map((probe) => ({ ...probe, wait: SECOND_WAIT })));
  return differences(scenario, new Map([...first, ...second]));
}
