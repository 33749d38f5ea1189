import { fileURLToPath } from "node:url";
import { execaSync } from "execa";

const FETCH = fileURLToPath(new URL("../../scripts/get-debian-program.sh", import.meta.url));

/**
 * Returns the path of a program of a Debian release, and fetches it if necessary.
 * @throws Error if it cannot be fetched
 */
export function debianProgram(
  release: "bookworm" | "trixie" | "sid",
  packageName: string,
  program: string,
): string {
  return execaSync(FETCH, [release, packageName, program]).stdout.trim();
}

/** Returns the path of a Debian release's nft, as {@link debianProgram}. */
export function debianNft(release: "bookworm" | "sid"): string {
  return debianProgram(release, "nftables", "nft");
}
