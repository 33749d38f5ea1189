import { portEquivalent } from "../../features/frontends.ts";
import { FEATURES } from "../../features/registry.ts";
import type { FeatureWords } from "../../features/seam/feature.ts";
import type { ServicePortSpec } from "../../model/service.ts";
import type { ServicePort } from "../../model/service-port.ts";
import type { FamilyState } from "../../ruleset/family-state.ts";
import { listNumber, parseId } from "../../ruleset/list-ids.ts";
import { causeOfChain, REFUSAL_CAUSES } from "../../ruleset/refusal-causes.ts";
import { drawsOf } from "../../ruleset/setting-grids.ts";
import { isEcho } from "../../trace/packet.ts";
import type { Result } from "../connection-result.ts";
import type { Connection } from "./explanation.ts";

/** Formats a service port: `shop/cart port http (80/tcp)`. */
export function portText({ service, spec }: Pick<ServicePort, "service" | "spec">): string {
  return `${service.name} port ${portSpecText(spec)}`;
}

/** Formats a port of a Service: `http (80/tcp)`, or `80/tcp` for a nameless port. */
export function portSpecText({
  name,
  port,
  protocol,
}: Pick<ServicePortSpec, "name" | "port" | "protocol">): string {
  return name === "" ? `${port}/${protocol}` : `${name} (${port}/${protocol})`;
}

/** Formats the id of a list, with its service port if known: `list 17 of shop/cart port http (80/tcp)`. */
export function endpointListText(id: number, state: FamilyState | undefined): string {
  const parsed = parseId(id);
  if (parsed === undefined) return "a list that nft-proxy does not make";
  const owner = state?.ownerOfList(id);
  const list = `list ${listNumber(parsed.servicePort)}${owner === undefined ? "" : ` of ${portText(owner)}`}`;
  return parsed.way === "local" ? `${list}: this node's endpoints` : list;
}

/** Formats a destination: `10.96.0.10 port 80/tcp`; of an echo request, the address alone. */
export function destinationText({ to, port, protocol }: Connection): string {
  return isEcho(protocol) ? to : `${to} port ${port}/${protocol}`;
}

/** The endpoints among which a chain draws: `3 endpoints`, or `the endpoints` if it may draw again. */
export function drawnText(count: number): string {
  return drawsOf(count).length === 1 ? `${count} endpoints` : "the endpoints";
}

/** Why the rules have another timeout of session affinity than the Service asks for. */
export function otherTimeoutReason(seconds: number, wanted: number): string {
  return seconds < wanted ? "--max-affinity-timeout" : "timeouts beyond a minute have steps of up to 10 %";
}

/** The name of an outcome in texts for people. */
export function resultText(result: Result): string {
  return result.replace("-", " ");
}

/** Words of all features, by the names of their sets and chains. */
export function wordsOf<Kind extends "draws" | "found" | "beyond" | "resets" | "translations">(
  kind: Kind,
): NonNullable<FeatureWords[Kind]> {
  return Object.assign({}, ...FEATURES.map(({ words }) => words?.[kind]));
}

/** Why a chain of nft-proxy refuses or drops a connection; undefined for other chains. */
export function refusalWords(chain: string, isDropped: boolean): string | undefined {
  const cause = causeOfChain(portEquivalent(chain), isDropped);
  if (cause !== undefined) return REFUSAL_CAUSES[cause].message;
  const found = FEATURES.find(({ ruleset }) => ruleset?.refusal?.chain === chain);
  return found?.ruleset?.refusal?.message;
}
