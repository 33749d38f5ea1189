/** The schemes of proxies that client-go supports: https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/#Cluster */
const SCHEMES: ReadonlySet<string> = new Set(["http:", "https:", "socks5:", "socks5h:"]);

const DEFAULT_PORTS: Readonly<Record<string, string>> = { "http:": "80", "https:": "443" };

/** Returns the URL of a proxy, undefined for text that is none. */
export function parseProxy(text: string): URL | undefined {
  if (!URL.canParse(text)) return undefined;
  const url = new URL(text);
  return SCHEMES.has(url.protocol) && url.hostname !== "" ? url : undefined;
}

/** Returns a proxy's host, an IPv6 address without brackets, and port. */
export function proxyAddress({ protocol, hostname, port }: URL): { readonly host: string; readonly port: number } {
  return { host: hostname.replace(/^\[|\]$/g, ""), port: Number(port || (DEFAULT_PORTS[protocol] ?? "1080")) };
}

/** Returns a proxy for messages: without its password. */
export function proxyText({ protocol, host }: URL): string {
  return `${protocol}//${host}`;
}

/** Returns the user and password of a proxy's URL; undefined when it has none. */
export function proxyCredentials({ username, password }: URL): readonly [user: string, password: string] | undefined {
  if (username === "" && password === "") return undefined;
  return [decodeURIComponent(username), decodeURIComponent(password)];
}
