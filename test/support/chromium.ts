import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

/** Flags that isolate the tests' browser: no updates, no requests of its own, no state of an earlier run. */
export const CHROMIUM_FLAGS: readonly string[] = [
  // Chromium's sandbox refuses to start as root, and tests only open our own page.
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--disable-dev-shm-usage",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** The name in Debian's package first, then the names in others. */
const PLACES: readonly string[] = [
  "/usr/bin/chromium",
  ...["chromium", "chromium-browser", "google-chrome"].flatMap((name) =>
    (process.env.PATH ?? "").split(delimiter).map((directory) => join(directory, name)),
  ),
];

/** Returns the path of a Chromium, or undefined if there is none. */
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

/** Returns a message if there is no browser, otherwise "". */
function missing(): string {
  return findChromium() === undefined ? "there is no chromium (Debian: apt-get install chromium)" : "";
}

/** Vitest's global setup. Fails without a browser in CI, where NFT_PROXY_REQUIRE_BROWSER is 1. */
export function setup(): void {
  if (missing() !== "" && process.env.NFT_PROXY_REQUIRE_BROWSER === "1") {
    throw new Error(`the browser tests cannot run: ${missing()}`);
  }
}

/** Reports skipped browser tests at the end, where users see it. */
export function teardown(): void {
  if (missing() === "") return;
  process.stderr.write(`\nNOTE: the browser tests of the status page were SKIPPED: ${missing()}\n`);
}
