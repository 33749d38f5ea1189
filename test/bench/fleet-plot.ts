import type { FleetSecond } from "./fleet-log.ts";

const WIDTH = 900;
const HEIGHT = 260;
const LEFT = 66;
const RIGHT = 24;
const TOP = 40;
const BOTTOM = 44;

/** Draws the requests and lists of all nodes for each second, as SVG. */
export function fleetPlot(
  chapters: readonly { readonly title: string; readonly at: number }[],
  seconds: readonly Pick<FleetSecond, "requests" | "lists">[],
): string {
  const most = Math.max(1, ...seconds.map(({ requests }) => requests));
  const step = (WIDTH - LEFT - RIGHT) / Math.max(1, seconds.length);
  const high = HEIGHT - TOP - BOTTOM;
  const x = (second: number) => (LEFT + second * step).toFixed(1);
  // The scale is a root, because a start has many times the requests of an outage.
  const height = (count: number) => high * Math.sqrt(count / most);
  const bars = (of: (second: Pick<FleetSecond, "requests" | "lists">) => number, colour: string): string[] =>
    seconds.flatMap((second, at) => {
      const tall = height(of(second));
      const y = (TOP + high - tall).toFixed(1);
      return tall === 0
        ? []
        : [
            `<rect x="${x(at)}" y="${y}" width="${step.toFixed(2)}" height="${tall.toFixed(1)}" fill="${colour}"/>`,
          ];
    });
  const marks = [1, 50, 200, 500, 1000, 2000].filter((count) => count <= most);
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" font-family="sans-serif" font-size="11">`,
    "<title>Requests and lists of all nodes by seconds</title>",
    `<rect width="${WIDTH}" height="${HEIGHT}" fill="#fff"/>`,
    ...bars(({ requests }) => requests, "#9ab8d8"),
    ...bars(({ lists }) => lists, "#c0504d"),
    ...marks.map((count) => {
      const y = (TOP + high - height(count)).toFixed(1);
      return `<path d="M${LEFT} ${y}H${WIDTH - RIGHT}" stroke="#ddd"/><text x="${LEFT - 6}" y="${Number(y) + 4}" text-anchor="end">${count}</text>`;
    }),
    ...chapters.map(
      ({ title, at }, index) =>
        `<path d="M${x(at)} ${TOP - 8}V${TOP + high}" stroke="#888"/><text x="${x(at)}" y="${index % 2 === 0 ? 12 : 26}">${title}</text>`,
    ),
    ...Array.from({ length: Math.floor(seconds.length / 30) + 1 }, (_, n) => 30 * n).map(
      (second) => `<text x="${x(second)}" y="${HEIGHT - 28}" text-anchor="middle">${second} s</text>`,
    ),
    `<path d="M${LEFT} ${TOP}V${TOP + high}H${WIDTH - RIGHT}" fill="none" stroke="#444"/>`,
    `<text transform="translate(14 ${TOP + high / 2}) rotate(-90)" text-anchor="middle">in a second (root scale)</text>`,
    `<text x="${LEFT}" y="${HEIGHT - 8}">simulated time</text>`,
    `<text x="${WIDTH - RIGHT}" y="${HEIGHT - 8}" text-anchor="end">requests (blue), lists among them (red)</text>`,
    "</svg>",
    "",
  ].join("\n");
}
