import { readFileSync } from "node:fs";
import { RESOURCE_NAMES, type ResourceName } from "../../../src/kube/source.ts";
import type { ScenarioName } from "../lab/scenario.ts";
import type { StubCluster } from "./stub-cluster.ts";

const FIXTURES = new URL("../../fixtures/", import.meta.url);

/** Returns a recorded list of the town: `town`, or `town-after`, its state after the recorded streams. */
export function townList(town: ScenarioName, resource: ResourceName) {
  return JSON.parse(readFileSync(new URL(`${town}/objects/${resource}.json`, FIXTURES), "utf8"));
}

/** Fills a cluster with the recorded town. */
export function loadTown(cluster: StubCluster, town: ScenarioName = "town"): void {
  for (const resource of RESOURCE_NAMES) cluster.load(resource, townList(town, resource));
}

/** Replays the town's recorded changes of all resources, oldest first. */
export function replayTown(cluster: StubCluster): void {
  for (const { resource, line } of townLines()) cluster.replay(resource, line);
}

/** Returns the lines of the recorded streams, in order of version. */
function townLines(): readonly { readonly resource: ResourceName; readonly line: string }[] {
  const lines = RESOURCE_NAMES.flatMap((resource) =>
    readFileSync(new URL(`town/${resource}.watch.jsonl`, FIXTURES), "utf8")
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => ({ resource, line, version: Number(JSON.parse(line).object.metadata.resourceVersion) })),
  );
  return lines.sort((a, b) => a.version - b.version);
}
