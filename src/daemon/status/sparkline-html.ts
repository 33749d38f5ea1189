import { type Html, html } from "./html.ts";

/** The height of the tallest bar. */
const HEIGHT = 24;

/**
 * A chart of bars as inline SVG, one unit wide each: no script, no style of its own.
 * @param values not negative
 * @param label what a reader who does not see it is told
 */
export function sparklineHtml(values: readonly number[], label: string): Html {
  const most = Math.max(...values, 0);
  const bars = values.flatMap((value, x) => (value === 0 ? [] : [barHtml(x, (value / most) * HEIGHT)]));
  return html`<svg class="spark" viewBox="0 0 ${values.length} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label="${label}">${bars}</svg>`;
}

/** The least height keeps a small value visible beside a large one. */
function barHtml(x: number, height: number): Html {
  const shown = Math.max(1, Math.round(height * 10) / 10);
  return html`<rect x="${x}" y="${HEIGHT - shown}" width="0.8" height="${shown}"/>`;
}
