import { expect, test } from "vitest";
import { resolveOptions } from "../../../../src/config/resolve.ts";
import { clusterClient } from "../../../../src/inspect/load/load-objects.ts";

const REQUEST = { ...resolveOptions(), nodeName: "node-1", paths: [], stdin: process.stdin, env: {} };

test.each([
  ["deniedSocket", "run as root, set --kubeconfig, or read objects from files with --from"],
  [
    "silentSocket",
    "run the command where nft-proxy runs, or give --kubeconfig, or read objects from files with --from",
  ],
])("clusterClient says what to do without an API server, beside a %s", async (socket, hint) => {
  const request = { ...REQUEST, userAgent: "test", [socket]: "/nowhere/socket" };
  await expect(clusterClient(request)).rejects.toMatchObject({ code: "BAD_CONFIG", hint });
});
