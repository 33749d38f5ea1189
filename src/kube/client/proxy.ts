import { isIP, isIPv6 } from "node:net";
import { AppError } from "../../base/errors.ts";
import { canonicalAddress, canonicalCidr, cidrContains, isLoopback } from "../../model/ip.ts";

/**
 * The schemes of proxies that client-go supports:
 * https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/#Cluster
 */
const SCHEMES: ReadonlySet<string> = new Set(["http:", "https:", "socks5:", "socks5h:"]);

/** Parses the URL of a proxy. Returns undefined for any other text. */
export function parseProxy(text: string): URL | undefined {
  if (!URL.canParse(text)) return undefined;
  const url = new URL(text);
  return SCHEMES.has(url.protocol) && url.hostname !== "" ? url : undefined;
}

/** Returns a proxy for messages: without its password. */
export function proxyText({ protocol, host }: URL): string {
  return `${protocol}//${host}`;
}

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Returns the proxy that the environment names for a server: `HTTPS_PROXY`, or `HTTP_PROXY` for an http
 * server, unless `NO_PROXY` excepts it. A lower-case name counts if the upper-case one is absent. The same as
 * in client-go, which follows https://pkg.go.dev/golang.org/x/net/http/httpproxy#Config.
 * @throws AppError BAD_CONFIG when the variable is not the URL of a proxy
 */
export function proxyOfEnvironment(server: URL, env: Environment): URL | undefined {
  const name = server.protocol === "https:" ? "HTTPS_PROXY" : "HTTP_PROXY";
  const value = variable(env, name).trim();
  if (value === "" || isExcepted(server, variable(env, "NO_PROXY"))) return undefined;
  const proxy = parseProxy(value.includes("://") ? value : `http://${value}`);
  if (proxy === undefined)
    throw new AppError(
      "BAD_CONFIG",
      `the environment variable ${name} is not the URL of an http, https or socks5 proxy`,
    );
  return proxy;
}

function variable(env: Environment, name: string): string {
  return env[name] || env[name.toLowerCase()] || "";
}

function isExcepted(server: URL, exceptions: string): boolean {
  const host = server.hostname.toLowerCase().replace(/^\[|\]$|\.$/g, "");
  const port = server.port || (server.protocol === "https:" ? "443" : "80");
  if (host === "localhost" || (isIP(host) !== 0 && isLoopback(host))) return true;
  return exceptions
    .split(",")
    .map((entry) => entry.trim().toLowerCase())
    .some((entry) => entry === "*" || isInNetwork(host, entry) || isNamed(host, port, entry));
}

function isInNetwork(host: string, entry: string): boolean {
  const [cidr, address] = [canonicalCidr(entry), canonicalAddress(host)];
  return cidr !== undefined && address !== undefined && cidrContains(cidr, address);
}

/**
 * An address matches itself. A domain matches itself and its subdomains, or only these if it begins with a
 * dot.
 */
function isNamed(host: string, port: string, entry: string): boolean {
  const [, name, ofEntry] = isIPv6(entry)
    ? [entry, entry, undefined]
    : (/^(.*?)(?::(\d+))?$/.exec(entry) ?? [entry, entry, undefined]);
  const named = (name ?? "").replace(/^\[|\]$/g, "").replace(/^\*\./, ".");
  if (named === "" || (ofEntry !== undefined && ofEntry !== port)) return false;
  if (named === host) return true;
  return isIP(host) === 0 && host.endsWith(named.startsWith(".") ? named : `.${named}`);
}
