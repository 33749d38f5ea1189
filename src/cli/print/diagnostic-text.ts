import type { Diagnostic } from "../../kube/files/diagnostic.ts";

/** Whether anything was refused, not merely remarked upon. */
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
