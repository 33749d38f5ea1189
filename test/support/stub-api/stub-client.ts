import { ApiClient } from "../../../src/kube/client/client.ts";
import { parseServer } from "../../../src/kube/client/load-connection.ts";
import type { StubApi } from "./stub-api.ts";

/** Returns a client of a stub API server. `token` returns the token for each request. */
export function stubClient({ url }: StubApi, token: () => string = () => ""): ApiClient {
  return new ApiClient({
    userAgent: "nft-proxy/test",
    connect: async () => ({
      name: url,
      server: parseServer(url, "the stub"),
      isCurrent: async () => true,
      credentials: async () => ({ headers: { authorization: `Bearer ${token()}` } }),
    }),
  });
}
