import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

/** What keeps a browser of tests to itself: no updates, no fetches of its own, no state of an earlier run. */
export const CHROMIUM_FLAGS: readonly string[] = [
  // Its sandbox refuses to start as root, and no page but our own is ever opened.
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--disable-dev-shm-usage",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** Debian's package first, then what others call it. */
const PLACES: readonly string[] = [
  "/usr/bin/chromium",
  ...["chromium", "chromium-browser", "google-chrome"].flatMap((name) =>
    (process.env.PATH ?? "").split(delimiter).map((directory) => join(directory, name)),
  ),
];

/** The path of a Chromium, undefined when there is none. */
export function findChromium(): string | undefined {
  return PLACES.find(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** What there is to say where there is no browser; "" where there is one. */
function missing(): string {
  return findChromium() === undefined ? "there is no chromium (Debian: apt-get install chromium)" : "";
}

/** Vitest's global setup: in CI, where NFT_PROXY_REQUIRE_BROWSER is 1, browser tests must not be skipped. */
export function setup(): void {
  if (missing() !== "" && process.env.NFT_PROXY_REQUIRE_BROWSER === "1") {
    throw new Error(`the browser tests cannot run: ${missing()}`);
  }
}

/** Says at the end, where it is seen, that browser tests were skipped. */
export function teardown(): void {
  if (missing() === "") return;
  process.stderr.write(`\nNOTE: the browser tests of the status page were SKIPPED: ${missing()}\n`);
}
