import { readFile } from "node:fs/promises";
import { dirname, isAbsolute, join } from "node:path";
// The package's index loads every generated API class: 450 ms and 70 MB. These two modules are all that is needed.
import {
  type Cluster,
  newClusters,
  newContexts,
  newUsers,
  type User,
} from "@kubernetes/client-node/dist/config_types.js";
import { ExecAuth } from "@kubernetes/client-node/dist/exec_auth.js";
import { parse } from "yaml";
import { AppError, messageOf } from "../../base/errors.ts";
import { quoted } from "../../base/schema-error.ts";
import { systemReason } from "../files/diagnostic.ts";
import { type Connection, type Credentials, parseServer } from "./connection.ts";
import { RotatingFile } from "./rotating-file.ts";

/** The cluster and user of a kubeconfig's current context. File names are absolute. */
interface Selected {
  readonly cluster: Cluster;
  readonly user: User;
  /** "" for none. client-node 1.4.0 does not know this field, which kubeadm's kubeconfig for kube-proxy relies on. */
  readonly tokenFile: string;
}

/**
 * Reads the current context of a kubeconfig file. Supports tokens and token files, client certificates, passwords and
 * exec plugins. Source: https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/
 * @throws AppError UNREADABLE_INPUT when the file cannot be read, BAD_CONFIG when its content cannot be used
 */
export async function loadKubeconfig(path: string): Promise<Connection> {
  const selected = select(path, await readDocument(path));
  const { cluster, user } = selected;
  if (cluster.proxyUrl) {
    throw invalid(
      path,
      "proxy-url is not supported",
      "Give an address of the API server that this node reaches itself.",
    );
  }
  if (user.authProvider)
    throw invalid(path, "auth-provider is not supported", "Use an exec credential plugin, as kubectl does since 1.26.");
  const files = {
    ca: content(cluster.caFile, cluster.caData),
    cert: content(user.certFile, user.certData),
    key: content(user.keyFile, user.keyData),
    token: content(selected.tokenFile, undefined),
  };
  const plugin = user.exec ? execPlugin(user, dirname(path)) : async () => undefined;
  return {
    server: parseServer(cluster.server, `the server in ${path}`),
    credentials: async () => {
      const exec = await plugin();
      const token = (await files.token()) ?? user.token ?? exec?.token;
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
    },
  };
}

async function readDocument(path: string): Promise<Record<string, unknown>> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (cause) {
    throw new AppError("UNREADABLE_INPUT", `cannot read the kubeconfig ${path}: ${systemReason(cause)}`, { cause });
  }
  try {
    const document: unknown = parse(text);
    if (typeof document === "object" && document !== null) return document as Record<string, unknown>;
  } catch (cause) {
    throw invalid(path, messageOf(cause));
  }
  throw invalid(path, "it is not a mapping");
}

function select(path: string, document: Record<string, unknown>): Selected {
  const directory = dirname(path);
  const name = document["current-context"];
  try {
    const context = newContexts(document.contexts).find((each) => each.name === name);
    const cluster = newClusters(document.clusters).find((each) => each.name === context?.cluster);
    if (context === undefined || cluster === undefined)
      throw new Error(`current-context ${quoted(name ?? "")} names no context with a cluster`);
    const user: User | undefined = newUsers(document.users).find((each) => each.name === context.user);
    if (user === undefined && context.user)
      throw new Error(`the user ${quoted(context.user)} of the current context is missing`);
    return {
      cluster: { ...cluster, ...(cluster.caFile ? { caFile: absolute(directory, cluster.caFile) } : {}) },
      user: {
        ...(user ?? { name: "" }),
        ...(user?.certFile ? { certFile: absolute(directory, user.certFile) } : {}),
        ...(user?.keyFile ? { keyFile: absolute(directory, user.keyFile) } : {}),
      },
      tokenFile: absolute(directory, tokenFileOf(document.users, user?.name ?? "")),
    };
  } catch (cause) {
    throw invalid(path, messageOf(cause));
  }
}

function tokenFileOf(users: unknown, name: string): string {
  const entries: readonly { name?: unknown; user?: { tokenFile?: unknown } }[] = Array.isArray(users) ? users : [];
  const file = entries.find((entry) => entry.name === name)?.user?.tokenFile;
  return typeof file === "string" ? file : "";
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

function execPlugin(user: User, directory: string): () => Promise<ExecCredentials> {
  const { exec } = user;
  const info = { apiVersion: exec.apiVersion, kind: "ExecCredential", spec: { interactive: false } };
  const command = String(exec.command ?? "");
  const prepared: User = {
    ...user,
    exec: {
      ...exec,
      // As in client-go: a relative path is relative to the kubeconfig, a bare name is looked up in PATH.
      command: command.includes("/") ? absolute(directory, command) : command,
      // Plugins such as GKE's refuse to run without it, and client-node 1.4.0 does not set it.
      env: [...(exec.env ?? []), { name: "KUBERNETES_EXEC_INFO", value: JSON.stringify(info) }],
    },
  };
  const authenticator = new ExecAuth();
  return async () => {
    const answer: { headers: Record<string, string>; cert?: string; key?: string } = { headers: {} };
    await authenticator.applyAuthentication(prepared, answer).catch((cause) => {
      throw new Error(`the credential plugin ${command} failed: ${pluginReason(cause)}`, { cause });
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

function authorization(user: User, token: string | undefined): Credentials["headers"] {
  if (token !== undefined) return { authorization: `Bearer ${token.trim()}` };
  if (user.username)
    return { authorization: `Basic ${Buffer.from(`${user.username}:${user.password ?? ""}`).toString("base64")}` };
  return {};
}

function absolute(directory: string, file: string): string {
  return file === "" || isAbsolute(file) ? file : join(directory, file);
}

function invalid(path: string, reason: string, hint?: string): AppError {
  return new AppError(
    "BAD_CONFIG",
    `the kubeconfig ${path} cannot be used: ${reason}`,
    hint === undefined ? {} : { hint },
  );
}
