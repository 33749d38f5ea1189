import type { Tally } from "../support/lab/outcome.ts";

/**
 * Who answered a probe's connections, one line each with a bar, at most 80 columns:
 * `  10.244.1.11:8080   21  ====`.
 */
export function answerLines(tally: Tally): readonly string[] {
  const byEndpoint = new Map<string, number>();
  for (const [answer, count] of Object.entries(tally)) {
    const endpoint = endpointOf(answer);
    byEndpoint.set(endpoint, (byEndpoint.get(endpoint) ?? 0) + count);
  }
  const most = Math.max(...byEndpoint.values());
  return [...byEndpoint]
    .sort(([a], [b]) => a.localeCompare(b, "en"))
    .map(([endpoint, count]) => {
      const bar = "=".repeat(Math.max(1, Math.round((count / most) * 40)));
      return `  ${endpoint.padEnd(24)} ${String(count).padStart(4)}  ${bar}`;
    });
}

function endpointOf(answer: string): string {
  const [address, port, peer] = answer.split(" ");
  if (peer === undefined) return answer;
  return address?.includes(":") ? `[${address}]:${port}` : `${address}:${port}`;
}

/** A command line as a reader would type it, continued with backslashes so that no line passes 80 columns. */
export function commandLines(argv: readonly string[]): readonly string[] {
  const lines: string[] = [];
  let line = "$";
  for (const word of argv) {
    if (`${line} ${word} \\`.length > 80) {
      lines.push(`${line} \\`);
      line = "   ";
    }
    line += ` ${word}`;
  }
  return [...lines, line];
}

/** The first `count` lines of a text, cut to 80 columns, and a line that tells how many more there are. */
export function firstLines(text: string, count: number): readonly string[] {
  const lines = text.trimEnd().replaceAll("\t", "  ").split("\n");
  const shown = lines
    .slice(0, count)
    .map((line) => `  ${line.length > 78 ? `${line.slice(0, 75)}...` : line}`);
  return lines.length > count ? [...shown, `  ... and ${lines.length - count} lines more`] : shown;
}
