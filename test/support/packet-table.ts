import { beforeAll, describe, expect, test } from "vitest";
import type { NodeContext } from "../../src/ruleset/node-context.ts";
import { type Objects, renderAll, type ServiceOptions, service, slice } from "./build.ts";
import { probeOutcomes } from "./expect.ts";
import type { Outcome, Probe } from "./lab/outcome.ts";
import type { ProgrammedLab } from "./programmed-lab.ts";

/** A packet of a table with its expected outcome. */
export interface PacketRow extends Omit<Probe, "id"> {
  readonly shows: string;
  readonly expected: Outcome;
}

/** Returns the outcome of connections that these endpoints answer. @param source as in {@link Outcome} */
export const answered = (source: string, ...endpoints: string[]): Outcome => ({
  result: "ok",
  source,
  endpoints,
});
export const refused: Outcome = { result: "refused" };
export const dropped: Outcome = { result: "timeout" };
export const tcp = { port: 80, proto: "tcp" } as const;

/**
 * Time to wait for an expected answer, seconds. On a slow machine, answers to all packets of a table at once
 * have taken longer than the usual 1.5 seconds.
 */
const PATIENCE = 20;

/** A Service with its EndpointSlices. */
export type ServiceWithSlices = readonly [ServiceOptions, ...Parameters<typeof slice>[0][]];

/** Returns the objects of some Services. */
export function objects(...given: readonly ServiceWithSlices[]): Objects {
  return {
    services: given.map(([options]) => service(options)),
    slices: given.flatMap(([{ name = "web" }, ...slices]) =>
      slices.map((options, index) => slice({ service: name, name: `${name}-${index}`, ...options })),
    ),
  };
}

/**
 * Defines a test for each row, which compares the evaluator's and the kernel's outcome. All rows share the
 * same objects' rules.
 * @param lab called when the tests run
 */
export function packetTable(
  lab: () => ProgrammedLab,
  title: string,
  given: Objects,
  nodeContext: NodeContext,
  rows: readonly PacketRow[],
): void {
  describe(title, () => {
    const probes = rows.map(({ shows, expected, ...probe }) => ({
      id: shows,
      ...(expected.result === dropped.result ? {} : { wait: PATIENCE }),
      ...probe,
    }));
    let seen: ReadonlyMap<string, Outcome>;
    beforeAll(async () => {
      await lab().program(given, nodeContext);
      seen = await lab().lab.probe(probes);
    });
    test.each(rows.map(({ shows, expected }, index) => [shows, index, expected] as const))(
      "%s",
      (shows, index, expected) => {
        const rules = Object.values(renderAll(given, nodeContext).state.ruleset);
        const possible = probeOutcomes(rules, probes[index] as Probe);
        expect(possible, "by the evaluator").toEqual(possible.map(() => expected));
        expect(seen.get(shows), "in the kernel").toEqual(expected);
      },
    );
  });
}
