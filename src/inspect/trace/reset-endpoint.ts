import { AppError } from "../../base/errors.ts";
import type { FlowEnd, TrackedConnection } from "../../kernel/connections.ts";
import { TABLE_NAME } from "../../nft/ast/ruleset.ts";
import { VANISHED_CHECK } from "../../ruleset/vanished.ts";
import type { PacketStory } from "./packet-story.ts";

/** Whether a packet was reset because the endpoint of its connection left every EndpointSlice. */
export function isResetForVanished({ end }: Pick<PacketStory, "end">): boolean {
  return end.kind === "rejected" && end.table === TABLE_NAME && end.chain === VANISHED_CHECK;
}

/**
 * Finds the endpoint of a reset packet's connection: the packet bears the Service's address, only connection tracking
 * knows the endpoint.
 * @param connections lists the tracked connections of a client
 * @returns undefined for packets that were not reset, and where connection tracking does not tell
 */
export async function resetEndpoint(
  story: PacketStory,
  connections: (client: string) => AsyncIterable<TrackedConnection>,
): Promise<FlowEnd | undefined> {
  if (!isResetForVanished(story)) return undefined;
  const { source, sourcePort, destination, destinationPort } = story.packet;
  try {
    for await (const one of connections(source)) {
      const isItsOwn =
        one.protocol === "tcp" &&
        one.client.port === sourcePort &&
        one.destination.address === destination &&
        one.destination.port === destinationPort;
      if (isItsOwn) return one.replySource;
    }
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
  }
  return undefined;
}
