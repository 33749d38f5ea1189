/** Timeout of operations that a slow machine may delay. A test that waits longer fails. */
export const PATIENCE = { timeout: Number(process.env.NFT_PROXY_TEST_PATIENCE_MS ?? 60_000), interval: 100 };
