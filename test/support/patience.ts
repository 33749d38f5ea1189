/** How long to wait for something that a slow machine takes long to do: a test that waits longer has failed. */
export const PATIENCE = { timeout: Number(process.env.NFT_PROXY_TEST_PATIENCE_MS ?? 60_000), interval: 100 };
