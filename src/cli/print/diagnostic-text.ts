import { listText } from "../../base/text.ts";
import type { MissingNode } from "../../inspect/load/load-request.ts";
import { type Diagnostic, inputName } from "../../kube/files/diagnostic.ts";
import type { Conflict } from "../../ruleset/family-state.ts";
import { frontendText } from "../../ruleset/keys.ts";

/** Whether any diagnostic is an error. */
export function hasErrors(diagnostics: readonly Diagnostic[]): boolean {
  return diagnostics.some(({ severity }) => severity === "error");
}

/** A diagnostic in one line: `error: town.yaml:12: Service shop/cart: spec.ports[0].port must be an integer`. */
export function diagnosticText({ severity, file, document, line, object, path, reason }: Diagnostic): string {
  const name = inputName(file);
  const place = `${name}${line === undefined ? "" : `:${line}`}${document === 1 ? "" : ` (document ${document})`}`;
  const subject = object === undefined ? "" : `${object}: `;
  return `${severity}: ${place}: ${subject}${`${path} ${reason}`.trim()}`;
}

/** A warning for each frontend that more than one service port wants. */
export function conflictNotices(conflicts: readonly Conflict[]): string[] {
  return conflicts.map(({ frontend, winner, losers }) => {
    const others = losers.map(({ name }) => name).join(", ");
    return `warning: ${frontendText(frontend)} belongs to ${winner.name}, the oldest that wants it; not to ${others}`;
  });
}

/** The message for a node that is not among the objects, with the nodes that are. */
export function missingNodeText({ name, candidates }: MissingNode): string {
  return `node ${name} is not among the objects; there ${candidates.length === 1 ? "is" : "are"} ${listText(candidates)}`;
}

/** A warning that the node is not among the Nodes that there are: its zone, addresses and pod CIDRs are unknown. */
export function missingNodeNotices(missing: MissingNode | undefined): string[] {
  if (missing === undefined || missing.candidates.length === 0) return [];
  const text = `${missingNodeText(missing)} (--hostname-override chooses one)`;
  return [`warning: ${text}: its zone, addresses and pod CIDRs are unknown`];
}
