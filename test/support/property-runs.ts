/** Returns the number of runs of a slow property. `npm run properties` makes many more. */
export function runs(count: number): number {
  return count * Number(process.env.NFT_PROXY_PROPERTY_FACTOR ?? 1);
}
