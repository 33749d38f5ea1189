import { text } from "node:stream/consumers";
import type { ApiClient } from "./client.ts";

/**
 * Maximum number of names that are read: enough to find a similar one, and little work for the API server.
 */
const MOST = 500;

/** Maximum time to wait for the names. Milliseconds. */
const WITHIN = 5000;

/**
 * Asks for the metadata of objects alone. Source:
 * https://kubernetes.io/docs/reference/using-api/api-concepts/#metadata-only-fetches
 */
const METADATA_ONLY = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json";

/**
 * Returns the names of the cluster's nodes, at most 500; none if they cannot be listed, for example without
 * permission.
 */
export async function nodeNames(client: ApiClient): Promise<string[]> {
  try {
    const { status, body } = await client.request({
      method: "GET",
      path: "/api/v1/nodes",
      query: { limit: String(MOST) },
      accept: METADATA_ONLY,
      signal: AbortSignal.timeout(WITHIN),
    });
    const answer = await text(body);
    if (status !== 200) return [];
    const list = JSON.parse(answer) as { items?: { metadata?: { name?: string } }[] };
    return (list.items ?? []).flatMap(({ metadata }) => metadata?.name ?? []);
  } catch {
    return [];
  }
}
