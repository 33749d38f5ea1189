/** Some objects as nft lists them: the text of `nft -j list ...`. */
export function listingOf(objects: readonly object[]): string {
  return JSON.stringify({ nftables: objects });
}
