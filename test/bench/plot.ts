/** One point of a curve: the measurement with one number of Services. */
export interface Point {
  /** The panel of the point. */
  readonly of: "change" | "start";
  readonly curve: "nft-proxy" | "kube-proxy's rules, loaded by nft" | "kube-proxy";
  readonly services: number;
  readonly ms: number;
}

const TITLES: Readonly<Record<Point["of"], string>> = {
  change: "One endpoint changed, until it is in the kernel",
  start: "Start, until every Service is in the kernel",
};

const COLOURS: Readonly<Record<Point["curve"], string>> = {
  "nft-proxy": "#1a7f37",
  "kube-proxy's rules, loaded by nft": "#cf222e",
  "kube-proxy": "#8250df",
};

const PANEL = { width: 430, height: 328, left: 72, right: 24, top: 102, bottom: 44 } as const;
/** The ranges of the axes, both logarithmic. */
const SERVICES = [100, 10_000] as const;
const MILLISECONDS = [1, 100_000] as const;

/**
 * Draws the points as SVG in two panels side by side, with notes below. The same points give the same text.
 */
export function plotText(points: readonly Point[], notes: readonly string[]): string {
  const [width, height] = [2 * PANEL.width, PANEL.height + 44];
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" font-size="12" role="img">`,
    `<title>What a change and a start cost as Services grow</title>`,
    `<rect width="${width}" height="${height}" fill="#fff"/>`,
    ...(["change", "start"] as const).map((of, index) => panel(of, points, index * PANEL.width)),
    ...notes.map(
      (note, i) => `<text x="${PANEL.left}" y="${height - 26 + 18 * i}" fill="#57606a">${note}</text>`,
    ),
    "</svg>",
    "",
  ].join("\n");
}

function panel(of: Point["of"], points: readonly Point[], left: number): string {
  const curves = (Object.keys(COLOURS) as Point["curve"][]).map((name, row) => {
    const own = points.filter((point) => point.of === of && point.curve === name);
    return curve(name, own, row);
  });
  const title = `<text x="${PANEL.left}" y="24" font-weight="600">${TITLES[of]}</text>`;
  return [`<g transform="translate(${left} 0)">`, title, axes(), ...curves, "</g>"].join("\n");
}

function axes(): string {
  const [x0, x1] = [horizontal(SERVICES[0]), horizontal(SERVICES[1])];
  const rows = [1, 10, 100, 1000, 10_000, 100_000].map((ms) => {
    const y = vertical(ms);
    const label = ms < 1000 ? `${ms} ms` : `${ms / 1000} s`;
    return `<path d="M${x0} ${y}H${x1}" stroke="#d0d7de"/><text x="${x0 - 6}" y="${y + 4}" text-anchor="end" fill="#57606a">${label}</text>`;
  });
  const columns = [100, 1000, 10_000].map((services) => {
    const label = services.toLocaleString("en");
    return `<text x="${horizontal(services)}" y="${PANEL.height - PANEL.bottom + 18}" text-anchor="middle" fill="#57606a">${label}</text>`;
  });
  const name = `<text x="${(x0 + x1) / 2}" y="${PANEL.height - 8}" text-anchor="middle" fill="#57606a">Services of 10 endpoints</text>`;
  const middle = (vertical(MILLISECONDS[0]) + vertical(MILLISECONDS[1])) / 2;
  const time = `<text transform="translate(14 ${middle}) rotate(-90)" text-anchor="middle" fill="#57606a">time</text>`;
  const lines = `<path d="M${x0} ${vertical(MILLISECONDS[1])}V${vertical(MILLISECONDS[0])}H${x1}" fill="none" stroke="#57606a"/>`;
  return [...rows, ...columns, lines, name, time].join("\n");
}

function curve(name: Point["curve"], points: readonly Point[], row: number): string {
  const sorted = [...points].sort((a, b) => a.services - b.services);
  const last = sorted.at(-1);
  if (last === undefined) return "";
  const colour = COLOURS[name];
  const places = sorted.map(({ services, ms }) => [horizontal(services), vertical(ms)] as const);
  const line = `<path d="M${places.map((place) => place.join(" ")).join("L")}" fill="none" stroke="${colour}" stroke-width="2"/>`;
  const dots = places.map(([x, y]) => `<circle cx="${x}" cy="${y}" r="3" fill="${colour}"/>`);
  const y = 44 + 18 * row;
  const key = `<circle cx="${PANEL.left + 5}" cy="${y - 4}" r="4" fill="${colour}"/>`;
  const label = `<text x="${PANEL.left + 16}" y="${y}">${name}: ${shown(last.ms)} at ${last.services.toLocaleString("en")}</text>`;
  return [line, ...dots, key, label].join("\n");
}

function shown(ms: number): string {
  return ms >= 1000 ? `${(ms / 1000).toFixed(1)} s` : `${ms.toFixed(ms < 10 ? 1 : 0)} ms`;
}

function horizontal(services: number): number {
  return Math.round(PANEL.left + share(services, SERVICES) * (PANEL.width - PANEL.left - PANEL.right));
}

function vertical(ms: number): number {
  return Math.round(
    PANEL.height - PANEL.bottom - share(ms, MILLISECONDS) * (PANEL.height - PANEL.top - PANEL.bottom),
  );
}

/** Returns the position of a value on a logarithmic axis, 0 to 1. */
function share(value: number, [first, last]: readonly [number, number]): number {
  return Math.log(value / first) / Math.log(last / first);
}
