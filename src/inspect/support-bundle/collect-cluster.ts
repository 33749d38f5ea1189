import { gunzipSync, gzipSync } from "node:zlib";
import type { ListedObjects } from "../../kube/source.ts";
import { answerOf, type FleetRequest, gatherFleet } from "../fleet/gather-fleet.ts";
import type { HttpAnswer } from "../http-answer.ts";
import { BUNDLE_FOLDER, bundledJson, namesOf } from "./collect.ts";
import { type BundleFile, foundNames, type NamesByKind } from "./redact.ts";

/** The support bundle of a cluster. */
export type ClusterBundle = Readonly<Awaited<ReturnType<typeof collectCluster>>>;

/** Some nodes at a time, because metrics and a log may have some megabytes together. */
const MOST_CONCURRENT = 16;

/** Timeout of one answer, milliseconds: the kubelet of a busy node reads the log from its disk. */
const ANSWER_WITHIN = 15_000;

/** Maximum length of a name of a folder, characters. */
const LONGEST_FOLDER = 60;

/** As much of the log as the bundle of a single node has. */
const LOG_QUERY = { tailLines: "1000", limitBytes: "1000000" };

/**
 * Asks the pods of all nodes through the API server for their health, metrics and log. Keeps the answers
 * compressed: 1,000 nodes take some 50 MB.
 * @throws AppError API_UNAVAILABLE if nodes, pods or DaemonSets cannot be listed
 */
export async function collectCluster(request: FleetRequest) {
  const kept: { readonly name: string; readonly compressed: Uint8Array }[] = [];
  const folders = new Set<string>();
  const keep = (name: string, { status, body }: HttpAnswer) => {
    const text = status === 200 || name.endsWith(".json") ? body : `HTTP status ${status}: ${body}\n`;
    kept.push({ name, compressed: gzipSync(text) });
  };
  const asked = {
    ...request,
    answerWithin: request.answerWithin ?? ANSWER_WITHIN,
    mostConcurrent: MOST_CONCURRENT,
  };
  const nodes = await gatherFleet({
    ...asked,
    onAnswers: async (pod, { livez, metrics }) => {
      const { name, node, container } = pod;
      // Names in an archive have at most 100 bytes; fleet.json has those of both.
      const free = [node, name].find((text) => text.length <= LONGEST_FOLDER && !folders.has(text));
      const folder = free ?? String(folders.size);
      folders.add(folder);
      const query = container === undefined ? LOG_QUERY : { ...LOG_QUERY, container };
      const log = await answerOf(asked, `${name}/log`, query);
      const answers = { "livez.json": livez, "metrics.txt": metrics, "daemon.log": log };
      for (const [file, answer] of Object.entries(answers))
        if (answer !== undefined) keep(`${BUNDLE_FOLDER}/${folder}/${file}`, answer);
    },
  });
  const fleet = bundledJson(nodes);
  return {
    /** The state of nft-proxy on every node, the worst first. */
    nodes,
    /** Yields the files one after the other; may be called several times. */
    *files(): Generator<BundleFile> {
      yield { name: `${BUNDLE_FOLDER}/fleet.json`, text: fleet };
      for (const { name, compressed } of kept) yield { name, text: gunzipSync(compressed).toString("utf8") };
    },
  };
}

/** Returns the names in a bundle that say something about the cluster, and those of its objects. */
export function clusterNames({ nodes, files }: ClusterBundle, objects: ListedObjects): NamesByKind[] {
  const names = { node: nodes.map(({ node }) => node), pod: nodes.map(({ pod }) => pod) };
  return [names, namesOf(objects, ""), foundNames(files())];
}
