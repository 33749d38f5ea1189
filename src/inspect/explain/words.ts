import type { ServicePortSpec } from "../../model/service.ts";
import type { ServicePort } from "../../model/service-port.ts";
import { OUTCOME_NAMES } from "../../ruleset/view-words.ts";
import type { Connection, Result } from "./explanation.ts";

/** `shop/cart port http (80/tcp)`. */
export function portText({ service, spec }: Pick<ServicePort, "service" | "spec">): string {
  return `${service.name} port ${portSpecText(spec)}`;
}

/** `http (80/tcp)`, or `80/tcp` of a nameless port. */
export function portSpecText({ name, port, protocol }: Pick<ServicePortSpec, "name" | "port" | "protocol">): string {
  return name === "" ? `${port}/${protocol}` : `${name} (${port}/${protocol})`;
}

/** `10.96.0.10 port 80/tcp`. */
export function destinationText({ to, port, protocol }: Connection): string {
  return `${to} port ${port}/${protocol}`;
}

/** `a, b and c`; `most` at most, and how many more there are. */
export function listText(items: readonly string[], most = 5): string {
  const shown = items.length > most ? [...items.slice(0, most), `${items.length - most} more`] : items;
  return shown.length < 2 ? shown.join("") : `${shown.slice(0, -1).join(", ")} and ${shown.at(-1)}`;
}

/** The outcomes of a connection in texts for people. */
export const RESULTS: Readonly<Record<Result, string>> = {
  ...OUTCOME_NAMES,
  "not-handled": "not handled",
  varies: "varies",
  "not-understood": "not understood",
};
