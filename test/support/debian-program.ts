import { fileURLToPath } from "node:url";
import { execaSync } from "execa";

const FETCH = fileURLToPath(new URL("../../scripts/get-debian-program.sh", import.meta.url));

/** The path of a program in a Debian release; it is fetched when it is not there yet. @throws Error when it cannot be had */
export function debianProgram(
  release: "bookworm" | "trixie" | "sid",
  packageName: string,
  program: string,
): string {
  return execaSync(FETCH, [release, packageName, program]).stdout.trim();
}

/** The path of a Debian release's nft, as {@link debianProgram}. */
export function debianNft(release: "bookworm" | "sid"): string {
  return debianProgram(release, "nftables", "nft");
}
