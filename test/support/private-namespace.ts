/**
 * Vitest's global setup for tests that change rules or create namespaces. They only run inside the private
 * namespaces of scripts/in-namespace.sh, so no test ever changes the host's rules.
 */
export function setup(): void {
  if (process.env.NFT_PROXY_PRIVATE_NAMESPACE === undefined) {
    throw new Error(
      "these tests need private namespaces: run them through scripts/in-namespace.sh, or use `npm test`",
    );
  }
}
