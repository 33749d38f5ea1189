import { readFile, stat } from "node:fs/promises";
import type { RequestOptions } from "node:https";
import { AppError, messageOf } from "../../base/errors.ts";
import { socketText } from "../../base/text.ts";
import { systemReason } from "../files/diagnostic.ts";
import { PLUGIN_LIMIT, pluginAuthentication } from "./credential-plugin.ts";
import { type KubeconfigContext, readContext } from "./kubeconfig.ts";
import { parseProxy, proxyOfEnvironment } from "./proxy.ts";

/** Credentials for one request: headers, and TLS settings that identify the client and verify the server. */
export type Credentials = Pick<
  RequestOptions,
  "headers" | "auth" | "ca" | "cert" | "key" | "rejectUnauthorized" | "servername"
>;

/** An API server's address and credentials. */
export interface Connection {
  /** For people: `https://10.0.0.1:6443 (context prod of /root/.kube/config)`. */
  readonly name: string;
  readonly server: URL;
  /** The http, https or socks5 proxy through which the server is reached; undefined for none. */
  readonly proxy?: URL | undefined;
  /**
   * Reads the credentials. Called for every request: token, CA and certificate files are replaced over time,
   * and requests are rare (a watch lasts minutes).
   * @throws AppError UNREADABLE_INPUT for a file that could never be read, Error when a credential plugin
   * fails
   */
  credentials(): Promise<Credentials>;
  /** Returns true if the files other than those of the credentials have not changed since they were read. */
  isCurrent(): Promise<boolean>;
}

/** Options of {@link loadConnection}. */
export interface ConnectionOptions {
  /** Path of a kubeconfig file, "" for none. */
  readonly kubeconfig: string;
  /** The context of the kubeconfig; the current one if absent or "". */
  readonly context?: string | undefined;
  /** URL of the API server that overrides the kubeconfig's; "" for none. */
  readonly master: string;
  /** The process's environment. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Directory of the Pod's ServiceAccount token and CA. */
  readonly serviceAccount?: string;
  /** Time after which a credential plugin is killed, milliseconds; {@link PLUGIN_LIMIT} if absent. */
  readonly pluginLimit?: number;
}

const SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount";

/** The context and the cluster without a kubeconfig. */
const NO_CONTEXT = { name: "", user: { name: "" }, tokenFile: "" };
const UNNAMED = { name: "", skipTLSVerify: false };

/**
 * Finds the API server as kube-proxy does: from the kubeconfig, else from `master` alone, else from the Pod's
 * environment; and the proxy to it: from the kubeconfig, else from the environment.
 * @throws AppError BAD_CONFIG when none is configured or a value is wrong, UNREADABLE_INPUT for an unreadable
 * kubeconfig
 */
export async function loadConnection(options: ConnectionOptions): Promise<Connection> {
  const { kubeconfig, master, env } = options;
  const mark = await markOf(kubeconfig);
  const context = await findContext(options);
  const { cluster } = context;
  const origin = kubeconfig === "" ? "KUBERNETES_SERVICE_HOST" : `the server in ${kubeconfig}`;
  const server = master === "" ? parseServer(cluster.server, origin) : parseServer(master, "--master");
  const proxy = cluster.proxyUrl ? parseProxy(cluster.proxyUrl) : undefined;
  if (cluster.proxyUrl && proxy === undefined)
    throw invalid(kubeconfig, "proxy-url is not the URL of an http, https or socks5 proxy");
  const url = `${server.protocol}//${server.host}${server.pathname.replace(/\/$/, "")}`;
  return {
    name: context.name === "" ? url : `${url} (context ${context.name} of ${kubeconfig})`,
    server,
    proxy: proxy ?? proxyOfEnvironment(server, env),
    credentials: credentialsOf(context, options.pluginLimit ?? PLUGIN_LIMIT),
    isCurrent: async () => [mark, ""].includes(await markOf(kubeconfig)),
  };
}

/**
 * Returns a text that changes whenever a file does; "" for no file, and for one that is missing at the
 * moment.
 */
async function markOf(path: string): Promise<string> {
  if (path === "") return "";
  const found = await stat(path).catch(() => undefined);
  return found === undefined ? "" : `${found.ino} ${found.size} ${found.mtimeMs} ${found.ctimeMs}`;
}

async function findContext({
  kubeconfig,
  context = "",
  master,
  env,
  serviceAccount: directory = SERVICE_ACCOUNT,
}: ConnectionOptions): Promise<KubeconfigContext> {
  if (kubeconfig !== "") return await contextOf(kubeconfig, context);
  if (context !== "") {
    throw new AppError("BAD_CONFIG", `no kubeconfig has the context ${context}`, {
      hint: "name the file with --kubeconfig or $KUBECONFIG",
    });
  }
  if (master !== "") return { ...NO_CONTEXT, cluster: { ...UNNAMED, server: master } };
  const { KUBERNETES_SERVICE_HOST: host = "", KUBERNETES_SERVICE_PORT: port = "443" } = env;
  if (host === "") {
    throw new AppError("BAD_CONFIG", "no API server is configured", {
      hint: "set --kubeconfig or --master, or run as a Pod; commands with --from can read objects from files instead",
    });
  }
  const cluster = { ...UNNAMED, server: `https://${socketText(host, port)}`, caFile: `${directory}/ca.crt` };
  return { ...NO_CONTEXT, cluster, tokenFile: `${directory}/token` };
}

async function contextOf(path: string, name: string): Promise<KubeconfigContext> {
  const text = await readFile(path, "utf8").catch((cause) => {
    throw new AppError("UNREADABLE_INPUT", `cannot read the kubeconfig ${path}: ${systemReason(cause)}`, {
      cause,
    });
  });
  try {
    const context = readContext(text, path, name);
    // client-node's providers pass their configuration to a shell.
    if (!context.user.authProvider) return context;
  } catch (cause) {
    throw invalid(path, messageOf(cause));
  }
  throw invalid(
    path,
    "auth-provider is not supported",
    "Use an exec credential plugin, as kubectl does since 1.26.",
  );
}

function invalid(path: string, reason: string, hint?: string): AppError {
  return new AppError("BAD_CONFIG", `the kubeconfig ${path} cannot be used: ${reason}`, { hint });
}

/**
 * Parses an API server's URL.
 * @param from the name of the text in the error message
 * @throws AppError BAD_CONFIG for anything but an http or https URL
 */
export function parseServer(text: string, from: string): URL {
  if (!URL.canParse(text) || !/^https?:\/\//.test(text))
    throw new AppError("BAD_CONFIG", `${from} is not an http or https URL`, { evidence: { value: text } });
  return new URL(text);
}

/**
 * Returns the reader of the credentials. It keeps the last contents of the files and the last answer of the
 * plugin.
 */
function credentialsOf(
  { cluster, user: { exec, ...user }, tokenFile }: KubeconfigContext,
  pluginLimit: number,
): () => Promise<Credentials> {
  const ca = contentOf(cluster.caFile, cluster.caData);
  const cert = contentOf(user.certFile, user.certData);
  const key = contentOf(user.keyFile, user.keyData);
  const token = tokenFile === "" ? undefined : rotatingFile(tokenFile);
  // Plugins such as GKE's refuse to run without it, and client-node 1.4.0 does not set it.
  const info = { apiVersion: exec?.apiVersion, kind: "ExecCredential", spec: { interactive: false } };
  const env = [...(exec?.env ?? []), { name: "KUBERNETES_EXEC_INFO", value: JSON.stringify(info) }];
  const plugin = pluginAuthentication(pluginLimit);
  return async () => {
    const headers: Record<string, string> = {};
    const options: RequestOptions = { headers, ca: await ca(), cert: await cert(), key: await key() };
    if (cluster.skipTLSVerify) options.rejectUnauthorized = false;
    if (cluster.tlsServerName) options.servername = cluster.tlsServerName;
    if (user.username) options.auth = `${user.username}:${user.password ?? ""}`;
    if (user.impersonateUser) headers["Impersonate-User"] = user.impersonateUser;
    const bearer = ((await token?.()) ?? user.token)?.trim();
    if (exec)
      await plugin.applyAuthentication({ ...user, exec: { ...exec, env } }, options).catch((cause) => {
        throw new Error(`the credential plugin ${exec.command} failed: ${pluginReason(cause)}`, { cause });
      });
    if (bearer) headers.Authorization = `Bearer ${bearer}`;
    return options;
  };
}

/**
 * client-node's error contains the plugin's standard error, or is a TypeError for an answer without a status.
 */
function pluginReason(error: unknown): string {
  if (error instanceof TypeError) return "it did not print an ExecCredential with a status";
  const text = error instanceof Error ? error.message.trim() : String(error);
  return text === "" ? "it wrote nothing to its standard error" : text;
}

/** Reads what one field holds as base64, or else the file that another field names. */
function contentOf(file: string | undefined, data: string | undefined) {
  if (data) return async () => Buffer.from(data, "base64");
  return file ? rotatingFile(file) : async () => undefined;
}

/**
 * Returns the reader of a file that is replaced from time to time (a projected token, a CA bundle). While it
 * is unreadable, or empty because it is being written, its last content is used. The reader throws AppError
 * UNREADABLE_INPUT if it could never be read.
 */
function rotatingFile(path: string): () => Promise<string> {
  let last = "";
  return async () => {
    try {
      last = (await readFile(path, "utf8")) || last;
    } catch (cause) {
      if (last === "") throw unreadable(path, systemReason(cause), cause);
    }
    if (last === "") throw unreadable(path, "it is empty");
    return last;
  };
}

function unreadable(path: string, reason: string, cause?: unknown): AppError {
  return new AppError("UNREADABLE_INPUT", `cannot read ${path}: ${reason}`, { cause, evidence: { path } });
}
