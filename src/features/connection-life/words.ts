import { durationText, formatDuration } from "../../base/duration.ts";
import { listText, moreLines } from "../../base/text.ts";
import type { Service } from "../../model/service.ts";
import type { ServicePort } from "../../model/service-port.ts";
import type { Table } from "../../nft/ast/ruleset.ts";
import { splitParts, targetText } from "../../nft/elements.ts";
import type { FeatureWords, NotedState } from "../seam/feature.ts";
import type { DrainingEndpoint } from "./draining-endpoints.ts";
import { connectionLifeOf, DRAIN_TIMEOUT_ANNOTATION, ON_REMOVED_ANNOTATION } from "./life.ts";
import { VANISHED, VANISHED_CHECK } from "./rules.ts";
import type { ShownEndpoints } from "./state.ts";

export const words: FeatureWords = {
  topic: "reset",
  note,
  badge,
  shownNotes,
  tableNotes,
  resets: {
    [VANISHED_CHECK]: (endpoint, service) =>
      `${endpoint} left ${service ?? "every EndpointSlice"}, or terminated for too long`,
  },
};

/** Describes what happens to connections when an endpoint terminates or is removed. */
function note({ service, spec }: ServicePort): string | undefined {
  const { onEndpointRemoved, drainTimeoutMs } = connectionLifeOf(service);
  const isTcp = spec.protocol === "tcp";
  const fate = isTcp ? "are reset" : "move to another endpoint";
  const removed = `connections to an endpoint that left are ${onEndpointRemoved === "keep" ? "kept" : "reset"} (annotation ${ON_REMOVED_ANNOTATION})`;
  const sentences = [
    onEndpointRemoved !== undefined && isTcp && removed,
    drainTimeoutMs !== undefined &&
      `connections to a terminating endpoint ${fate} after ${durationText(drainTimeoutMs / 1000)} (annotation ${DRAIN_TIMEOUT_ANNOTATION})`,
  ];
  return sentences.filter(Boolean).join("; ") || undefined;
}

function badge(service: Service): string | undefined {
  const { onEndpointRemoved, drainTimeoutMs } = connectionLifeOf(service);
  const texts = [
    onEndpointRemoved !== undefined && `on removal: ${onEndpointRemoved}`,
    drainTimeoutMs !== undefined && `drain timeout ${formatDuration(drainTimeoutMs)}`,
  ];
  return texts.filter(Boolean).join(", ") || undefined;
}

/** Maximum number of endpoints in the notes. */
const MOST = 5;

/** Lists endpoints that left, starting with the last one. Terminating endpoints follow. */
function shownNotes(
  { family, service }: ServicePort,
  { shown, portText, now }: NotedState,
): readonly string[] {
  const { held, draining } = shown as ShownEndpoints;
  const own = held.filter((one) => one.family === family && one.services.includes(service.name));
  const reset = own.toReversed().map(({ target, leftAt, isDrained }) => {
    const what = isDrained ? "exceeded the drain timeout of" : "left";
    return `the endpoint ${targetText(target)} ${what} ${portText} ${timeBetween(leftAt, now)} ago; clients that are still connected to it are reset`;
  });
  const drained = new Set(own.flatMap(({ target, isDrained }) => (isDrained ? [splitParts(target)[0]] : [])));
  const ending = draining.filter(
    (one) => one.family === family && one.service === service.name && !drained.has(one.address),
  );
  const notes = [...reset, ...ending.map((one) => drainText(one, now))];
  return [...notes.slice(0, MOST), ...moreLines(notes.length - MOST)];
}

/** docs/connection-life.md explains why connections may remain after the drain timeout. */
function drainText({ address, since, dueAt }: DrainingEndpoint, now: number): string {
  const what = `the endpoint ${address} has been terminating for ${timeBetween(since, now)}`;
  if (dueAt > now) return `${what}; its drain timeout is over in ${timeBetween(now, dueAt)}`;
  const over = timeBetween(dueAt, now);
  return `${what}, and its drain timeout was over ${over} ago; connections to it stay only while it gets new ones, or another Service names it and does not drain it`;
}

function timeBetween(from: number, to: number): string {
  return durationText(Math.max(Math.floor((to - from) / 1000), 0));
}

/**
 * The kernel does not know the Services of endpoints. Those with a port of a Service's endpoints may be its
 * own.
 */
function tableNotes({ sets }: Table, ports: ReadonlySet<number>): readonly string[] {
  const targets = [...(sets.get(VANISHED)?.elements.keys() ?? [])].filter(
    (target) => ports.size === 0 || ports.has(Number(splitParts(target)[1])),
  );
  if (targets.length === 0) return [];
  // The kernel lists them in random order.
  const names = listText(targets.map(targetText).sort(), MOST);
  return [
    `clients that are still connected to endpoints that left or terminated for too long are reset: ${names}; only the daemon knows the Services of these endpoints`,
  ];
}
