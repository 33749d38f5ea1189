/**
 * A workflow command that makes an annotation: `::error file=a.yaml,line=3,title=Service a/b::spec.ports ...`.
 * Source: GitHub's "Workflow commands"; how values are escaped: actions/toolkit, packages/core/src/command.ts.
 */
export function githubCommand(
  severity: "error" | "warning",
  message: string,
  properties: Readonly<Record<string, string>>,
): string {
  const texts = Object.entries(properties).map(([name, value]) => `${name}=${escapedProperty(value)}`);
  return `::${severity}${texts.length === 0 ? "" : ` ${texts.join(",")}`}::${escaped(message)}`;
}

function escaped(text: string): string {
  return text.replaceAll("%", "%25").replaceAll("\r", "%0D").replaceAll("\n", "%0A");
}

function escapedProperty(text: string): string {
  return escaped(text).replaceAll(":", "%3A").replaceAll(",", "%2C");
}
