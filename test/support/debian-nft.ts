import { fileURLToPath } from "node:url";
import { execaSync } from "execa";

const FETCH = fileURLToPath(new URL("../../scripts/get-debian-program.sh", import.meta.url));

/** The path of a Debian release's nft; it is fetched when it is not there yet. @throws Error when it cannot be had */
export function debianNft(release: "bookworm" | "sid"): string {
  return execaSync(FETCH, [release, "nftables", "nft"]).stdout.trim();
}
