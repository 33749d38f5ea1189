// Excludes modules from the bundle that client-node's KubeConfig imports and nft-proxy never calls: the generated API with some
// 850 classes, providers of credentials that are refused (they run a shell), agents for proxies and node-fetch.

/** The modules that KubeConfig imports, with what it takes from them. */
const UNUSED = {
  "./gen/index.js": ["createConfiguration", "ServerConfiguration"],
  "./azure_auth.js": ["AzureAuth"],
  "./gcp_auth.js": ["GoogleCloudPlatformAuth"],
  "./oidc_auth.js": ["OpenIDConnectAuth"],
  "node-fetch": ["Headers"],
  hpagent: ["HttpProxyAgent", "HttpsProxyAgent"],
  "socks-proxy-agent": ["SocksProxyAgent"],
};

/** An esbuild plugin, which puts a class in place of each: KubeConfig asks providers whether they serve a user. */
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
