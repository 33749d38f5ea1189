import { once } from "node:events";
import { createWriteStream, existsSync, mkdirSync, renameSync } from "node:fs";
import type { ResourceName } from "../../src/kube/source.ts";
import type { StubObject } from "../support/stub-api/selectors.ts";
import { TYPES } from "../support/stub-api/stub-cluster.ts";
import {
  type ClusterSize,
  nodeObject,
  serviceCIDRObject,
  serviceObject,
  sliceObjects,
} from "./cluster-objects.ts";

const CACHE = new URL("../../.cache/bench/", import.meta.url).pathname;

/**
 * Version of the generated objects. Change it whenever the generator changes, so that old files are not used.
 */
const GENERATION = 2;

/** Returns a path for a file that a benchmark writes. */
export function cachePath(name: string): string {
  mkdirSync(CACHE, { recursive: true });
  return `${CACHE}${name}`;
}

/** Returns the objects of a cache, one resource after the other. */
export function* clusterObjects(resource: ResourceName, size: ClusterSize): Generator<StubObject> {
  if (resource === "nodes") yield nodeObject();
  else if (resource === "servicecidrs") yield serviceCIDRObject();
  else {
    for (let i = 0; i < size.services; i++) {
      if (resource === "services") yield serviceObject(i, size);
      else yield* sliceObjects(i, size);
    }
  }
}

/**
 * Writes a cache as API lists, one file for each resource, if they do not exist yet.
 * @returns the directory
 */
export async function clusterDirectory(size: ClusterSize): Promise<string> {
  const directory = cachePath(
    `cache-${GENERATION}-${size.services}x${size.endpoints}${size.loadBalancers ? "-lb" : ""}${size.nodes === undefined ? "" : `-${size.nodes}-nodes`}`,
  );
  if (existsSync(directory)) return directory;
  const draft = `${directory}.${process.pid}`;
  mkdirSync(draft, { recursive: true });
  for (const resource of ["services", "endpointslices", "nodes", "servicecidrs"] as const) {
    await writeList(`${draft}/${resource}.json`, resource, size);
  }
  renameSync(draft, directory);
  return directory;
}

async function writeList(path: string, resource: ResourceName, size: ClusterSize): Promise<void> {
  const { apiVersion, kind } = TYPES[resource];
  const file = createWriteStream(path);
  file.write(
    `{"kind":"${kind}List","apiVersion":"${apiVersion}","metadata":{"resourceVersion":"100000"},"items":[`,
  );
  let separator = "";
  for (const object of clusterObjects(resource, size)) {
    if (!file.write(`${separator}${JSON.stringify(object)}`)) await once(file, "drain");
    separator = ",";
  }
  file.end("]}\n");
  await once(file, "close");
}
