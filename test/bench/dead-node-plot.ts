/** What the plot shows: when connections that failed were started, milliseconds after the node died. */
interface DeadNodeFailures {
  readonly without: readonly number[];
  readonly with: readonly number[];
}

/**
 * What the plot shows of it, seconds: before the death, until Kubernetes takes the endpoints out, and after
 * that.
 */
interface DeadNodeTimes {
  readonly before: number;
  readonly noticed: number;
  readonly after: number;
}

const WIDTH = 640;
const HEIGHT = 240;
const LEFT = 40;
const RIGHT = 12;
const TOP = 44;
const BOTTOM = 40;
const COLOURS = { without: "#cf222e", with: "#1a7f37" } as const;
const NAMES = { without: "without passive health checks", with: "with passive health checks" } as const;

/** Draws failed connections by seconds as SVG, one line for each of both. */
export function deadNodePlot(failures: DeadNodeFailures, { before, noticed, after }: DeadNodeTimes): string {
  const [from, seconds] = [-before, before + noticed + after];
  const countAt = (times: readonly number[], second: number) =>
    times.filter((ms) => Math.floor(ms / 1000) === second).length;
  const counts = (times: readonly number[]) =>
    Array.from({ length: seconds }, (_, n) => countAt(times, from + n));
  const most = Math.max(10, ...counts(failures.without), ...counts(failures.with));
  const x = (second: number) => LEFT + ((second - from) * (WIDTH - LEFT - RIGHT)) / seconds;
  const y = (count: number) => HEIGHT - BOTTOM - (count * (HEIGHT - TOP - BOTTOM)) / most;
  const steps = (times: readonly number[]) =>
    counts(times)
      .map(
        (count, n) =>
          `${n === 0 ? "M" : "L"}${x(from + n).toFixed(1)} ${y(count).toFixed(1)}H${x(from + n + 1).toFixed(1)}`,
      )
      .join("");
  const rows = [0, Math.round(most / 2), most].map(
    (count) =>
      `<path d="M${LEFT} ${y(count)}H${WIDTH - RIGHT}" stroke="#d0d7de"/><text x="${LEFT - 6}" y="${y(count) + 4}" text-anchor="end">${count}</text>`,
  );
  const columns = Array.from({ length: Math.floor((noticed + after) / 10) + 1 }, (_, n) => 10 * n).map(
    (second) => `<text x="${x(second)}" y="${HEIGHT - BOTTOM + 16}" text-anchor="middle">${second} s</text>`,
  );
  const marks = [
    [0, "the node dies"],
    [noticed, "its endpoints leave"],
  ] as const;
  const lines = marks.map(
    ([second, text]) =>
      `<path d="M${x(second)} ${TOP}V${HEIGHT - BOTTOM}" stroke="#57606a" stroke-dasharray="3"/><text x="${x(second)}" y="${TOP - 6}" text-anchor="middle">${text}</text>`,
  );
  const curves = (["without", "with"] as const).map(
    (name, row) =>
      `<path d="${steps(failures[name])}" fill="none" stroke="${COLOURS[name]}" stroke-width="2"/><text x="${LEFT + 220 * row}" y="16" fill="${COLOURS[name]}">${NAMES[name]}</text>`,
  );
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="system-ui, sans-serif" font-size="12" fill="#57606a" role="img">`,
    "<title>Failed connections a second when a node dies</title>",
    `<rect width="${WIDTH}" height="${HEIGHT}" fill="#fff"/>`,
    ...rows,
    ...columns,
    ...lines,
    ...curves,
    `<text x="${WIDTH - RIGHT}" y="${HEIGHT - 6}" text-anchor="end">failed connections a second, of 200</text>`,
    "</svg>",
    "",
  ].join("\n");
}
