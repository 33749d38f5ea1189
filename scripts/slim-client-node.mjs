// Excludes modules from the bundle that client-node's KubeConfig imports but nft-proxy never calls: the
// generated API with some 850 classes, providers of credentials that nft-proxy refuses because they run a
// shell, agents for proxies, and node-fetch.

/** The excluded modules, and the names that KubeConfig imports from each. */
const UNUSED = {
  "./gen/index.js": ["createConfiguration", "ServerConfiguration"],
  "./azure_auth.js": ["AzureAuth"],
  "./gcp_auth.js": ["GoogleCloudPlatformAuth"],
  "./oidc_auth.js": ["OpenIDConnectAuth"],
  "node-fetch": ["Headers"],
  hpagent: ["HttpProxyAgent", "HttpsProxyAgent"],
  "socks-proxy-agent": ["SocksProxyAgent"],
};

/**
 * An esbuild plugin that replaces each name with a class that serves no user. KubeConfig only asks providers
 * whether they serve a user.
 */
export const slimClientNode = {
  name: "slim-client-node",
  setup(build) {
    build.onResolve({ filter: /.*/ }, ({ path, importer }) =>
      importer.endsWith("/@kubernetes/client-node/dist/config.js") && Object.hasOwn(UNUSED, path)
        ? { path, namespace: "slim-client-node" }
        : undefined,
    );
    build.onLoad({ filter: /.*/, namespace: "slim-client-node" }, ({ path }) => ({
      contents: UNUSED[path]
        .map((name) => `export class ${name} { isAuthProvider() { return false; } }`)
        .join("\n"),
    }));
  },
};
