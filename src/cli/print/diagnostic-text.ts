import type { Diagnostic } from "../../kube/files/diagnostic.ts";
import type { Conflict } from "../../ruleset/ruleset-state.ts";

/** Whether any diagnostic is an error. */
export function hasErrors(problems: readonly Diagnostic[]): boolean {
  return problems.some(({ severity }) => severity === "error");
}

/** A problem in one line: `error: town.yaml:12: Service shop/cart: spec.ports[0].port must be an integer`. */
export function diagnosticText({ severity, file, document, line, object, path, reason }: Diagnostic): string {
  const name = file === "-" ? "standard input" : file;
  const place = `${name}${line === undefined ? "" : `:${line}`}${document === 1 ? "" : ` (document ${document})`}`;
  const subject = object === undefined ? "" : `${object}: `;
  return `${severity}: ${place}: ${subject}${`${path} ${reason}`.trim()}`;
}

/** A warning for each frontend that more than one service port wants. */
export function conflictNotices(conflicts: readonly Conflict[]): string[] {
  return conflicts.map(({ frontend, winner, losers }) => {
    const others = losers.map(({ name }) => name).join(", ");
    return `warning: ${frontend.replaceAll(" . ", " ")} belongs to ${winner.name}, the oldest that wants it; not to ${others}`;
  });
}
