import { readFile } from "node:fs/promises";
import { dirname } from "node:path";
import type { User } from "@kubernetes/client-node/dist/config_types.js";
import { ExecAuth } from "@kubernetes/client-node/dist/exec_auth.js";
import { AppError, messageOf } from "../../base/errors.ts";
import { systemReason } from "../files/diagnostic.ts";
import { basicAuthorization, type Connection, type Credentials, parseServer } from "./connection.ts";
import { type CurrentContext, readCurrentContext } from "./kubeconfig-document.ts";
import { parseProxy } from "./proxy-url.ts";
import { RotatingFile } from "./rotating-file.ts";

/**
 * Reads the current context of a kubeconfig file. Supports tokens and token files, client certificates, passwords and
 * exec plugins, and a proxy.
 * @throws AppError UNREADABLE_INPUT when the file cannot be read, BAD_CONFIG when its content cannot be used
 */
export async function loadKubeconfig(path: string): Promise<Connection> {
  const context = currentContext(path, await textOf(path));
  const { cluster, user } = context;
  const proxy = cluster.proxyUrl ? parseProxy(cluster.proxyUrl) : undefined;
  if (cluster.proxyUrl && proxy === undefined)
    throw invalid(path, "proxy-url is not the URL of an http, https or socks5 proxy");
  const providerHint = "Use an exec credential plugin, as kubectl does since 1.26.";
  if (user.authProvider) throw invalid(path, "auth-provider is not supported", providerHint);
  return { server: parseServer(cluster.server, `the server in ${path}`), proxy, credentials: credentialsOf(context) };
}

async function textOf(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (cause) {
    throw new AppError("UNREADABLE_INPUT", `cannot read the kubeconfig ${path}: ${systemReason(cause)}`, { cause });
  }
}

function currentContext(path: string, text: string): CurrentContext {
  try {
    return readCurrentContext(text, dirname(path));
  } catch (cause) {
    throw invalid(path, messageOf(cause));
  }
}

/** Returns the reader of the credentials, which keeps what files and the plugin gave last. */
function credentialsOf({ cluster, user, tokenFile }: CurrentContext): () => Promise<Credentials> {
  const files = {
    ca: content(cluster.caFile, cluster.caData),
    cert: content(user.certFile, user.certData),
    key: content(user.keyFile, user.keyData),
    token: content(tokenFile, undefined),
  };
  const plugin = user.exec ? execPlugin(user) : async () => undefined;
  return async () => {
    const exec = await plugin();
    const token = (await files.token()) ?? (user.token || exec?.token);
    const cert = (await files.cert()) ?? exec?.cert;
    const key = (await files.key()) ?? exec?.key;
    const ca = await files.ca();
    return {
      headers: {
        ...authorization(user, token),
        ...(user.impersonateUser ? { "impersonate-user": user.impersonateUser } : {}),
      },
      tls: {
        ...(ca === undefined ? {} : { ca }),
        ...(cert === undefined ? {} : { cert }),
        ...(key === undefined ? {} : { key }),
        ...(cluster.tlsServerName ? { servername: cluster.tlsServerName } : {}),
        ...(cluster.skipTLSVerify ? { rejectUnauthorized: false } : {}),
      },
    };
  };
}

/** Reads a value from the field that holds it in base64, or else from the file that another field names. */
function content(file: string | undefined, data: string | undefined): () => Promise<string | undefined> {
  const fixed = data ? Buffer.from(data, "base64").toString("utf8") : undefined;
  if (fixed !== undefined || !file) return async () => fixed;
  const rotating = new RotatingFile(file);
  return () => rotating.read();
}

interface ExecCredentials {
  readonly token: string | undefined;
  readonly cert: string | undefined;
  readonly key: string | undefined;
}

function execPlugin(user: User): () => Promise<ExecCredentials> {
  const { exec } = user;
  const info = { apiVersion: exec.apiVersion, kind: "ExecCredential", spec: { interactive: false } };
  // Plugins such as GKE's refuse to run without it, and client-node 1.4.0 does not set it.
  const env = [...(exec.env ?? []), { name: "KUBERNETES_EXEC_INFO", value: JSON.stringify(info) }];
  const prepared: User = { ...user, exec: { ...exec, env } };
  const authenticator = new ExecAuth();
  return async () => {
    const answer: { headers: Record<string, string>; cert?: string; key?: string } = { headers: {} };
    await authenticator.applyAuthentication(prepared, answer).catch((cause) => {
      throw new Error(`the credential plugin ${exec.command} failed: ${pluginReason(cause)}`, { cause });
    });
    return { token: answer.headers.Authorization?.replace(/^Bearer /, ""), cert: answer.cert, key: answer.key };
  };
}

/** client-node's error has what the plugin wrote to standard error, or is a TypeError for an answer without a status. */
function pluginReason(error: unknown): string {
  if (error instanceof TypeError) return "it did not print an ExecCredential with a status";
  const text = error instanceof Error ? error.message.trim() : String(error);
  return text === "" ? "it wrote nothing to its standard error" : text;
}

function authorization({ username, password }: User, token: string | undefined): Credentials["headers"] {
  if (token !== undefined) return { authorization: `Bearer ${token.trim()}` };
  if (!username) return {};
  return { authorization: basicAuthorization(username, password ?? "") };
}

function invalid(path: string, reason: string, hint?: string): AppError {
  return new AppError(
    "BAD_CONFIG",
    `the kubeconfig ${path} cannot be used: ${reason}`,
    hint === undefined ? {} : { hint },
  );
}
