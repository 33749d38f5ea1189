import { isAbsolute, join } from "node:path";
import { parseDocument } from "yaml";
import { joinPath, quoted } from "../../base/schema-error.ts";

/** A cluster of a kubeconfig. Texts are "" when they are not given, here and below; file names are absolute. */
export interface KubeconfigCluster {
  readonly server: string;
  readonly caFile: string;
  /** Base64, as all data is. */
  readonly caData: string;
  readonly skipTlsVerify: boolean;
  readonly tlsServerName: string;
  readonly proxyUrl: string;
}

/** A credential plugin. */
export interface KubeconfigExec {
  readonly apiVersion: string;
  /** An absolute path, or a name that is looked up in PATH. */
  readonly command: string;
  readonly args: readonly string[];
  readonly env: readonly { readonly name: string; readonly value: string }[];
}

/** A user of a kubeconfig. */
export interface KubeconfigUser {
  readonly name: string;
  readonly token: string;
  readonly tokenFile: string;
  readonly certFile: string;
  readonly certData: string;
  readonly keyFile: string;
  readonly keyData: string;
  readonly username: string;
  readonly password: string;
  readonly impersonate: string;
  readonly exec: KubeconfigExec | undefined;
  readonly hasAuthProvider: boolean;
}

/** What a kubeconfig's current context selects. */
export interface CurrentContext {
  readonly cluster: KubeconfigCluster;
  readonly user: KubeconfigUser;
}

/**
 * Reads the current context from a kubeconfig's text. Source: https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/
 * @param directory the directory of the file, to which the file names in it are relative
 * @throws Error with the reason, on one line and without any value that may be secret
 */
export function readCurrentContext(text: string, directory: string): CurrentContext {
  const root = new Section(parsed(text), "");
  const name = root.text("current-context");
  const context = entry(root, "contexts", name)?.section("context");
  const cluster = context === undefined ? undefined : entry(root, "clusters", context.text("cluster"));
  if (context === undefined || cluster === undefined)
    throw new Error(`current-context ${quoted(name)} names no context with a cluster`);
  const userName = context.text("user");
  const user = entry(root, "users", userName);
  if (user === undefined && userName !== "")
    throw new Error(`the user ${quoted(userName)} of the current context is missing`);
  const absolute = (file: string) => (file === "" || isAbsolute(file) ? file : join(directory, file));
  return {
    cluster: clusterOf(cluster.section("cluster"), absolute),
    user: userOf(userName, user?.section("user") ?? new Section({}, ""), absolute),
  };
}

function parsed(text: string): unknown {
  const document = parseDocument(text);
  const [error] = document.errors;
  // The message goes on with the line itself, which may hold a token.
  if (error !== undefined)
    throw new Error(error.code === "MULTIPLE_DOCS" ? "it has several documents" : error.message.replace(/:?\n.*/s, ""));
  return document.toJS();
}

function clusterOf(section: Section, absolute: (file: string) => string): KubeconfigCluster {
  const server = section.text("server");
  if (server === "") throw new Error(`${section.pathOf("server")} is missing`);
  return {
    server,
    caFile: absolute(section.text("certificate-authority")),
    caData: section.text("certificate-authority-data"),
    skipTlsVerify: section.flag("insecure-skip-tls-verify"),
    tlsServerName: section.text("tls-server-name"),
    proxyUrl: section.text("proxy-url"),
  };
}

function userOf(name: string, section: Section, absolute: (file: string) => string): KubeconfigUser {
  return {
    name,
    token: section.text("token"),
    tokenFile: absolute(section.text("tokenFile")),
    certFile: absolute(section.text("client-certificate")),
    certData: section.text("client-certificate-data"),
    keyFile: absolute(section.text("client-key")),
    keyData: section.text("client-key-data"),
    username: section.text("username"),
    password: section.text("password"),
    impersonate: section.text("as"),
    exec: section.has("exec") ? execOf(section.section("exec"), absolute) : undefined,
    hasAuthProvider: section.has("auth-provider"),
  };
}

function execOf(section: Section, absolute: (file: string) => string): KubeconfigExec {
  const command = section.text("command");
  if (command === "") throw new Error(`${section.pathOf("command")} is missing`);
  return {
    apiVersion: section.text("apiVersion"),
    // As in client-go: a relative path is relative to the kubeconfig, a bare name is looked up in PATH.
    command: command.includes("/") ? absolute(command) : command,
    args: section.texts("args"),
    env: section.sections("env").map((each) => ({ name: each.text("name"), value: each.text("value") })),
  };
}

/** Returns the first entry of a list that has a name. */
function entry(root: Section, list: string, name: string): Section | undefined {
  return root.sections(list).find((each) => each.text("name") === name);
}

/** A mapping of the file, and its path for messages. Null is the same as absent. */
class Section {
  readonly #values: Readonly<Record<string, unknown>>;
  readonly #path: string;

  constructor(value: unknown, path: string) {
    if (typeof value !== "object" || value === null || Array.isArray(value))
      throw new Error(path === "" ? "it is not a mapping" : `${path} is not a mapping`);
    this.#values = value as Record<string, unknown>;
    this.#path = path;
  }

  pathOf(key: string): string {
    return joinPath(this.#path, key);
  }

  has(key: string): boolean {
    return this.#values[key] !== undefined && this.#values[key] !== null;
  }

  text(key: string): string {
    const value = this.#values[key] ?? "";
    if (typeof value !== "string") throw new Error(`${this.pathOf(key)} is not a text: quote it`);
    return value;
  }

  flag(key: string): boolean {
    const value = this.#values[key] ?? false;
    if (typeof value !== "boolean") throw new Error(`${this.pathOf(key)} is neither true nor false`);
    return value;
  }

  section(key: string): Section {
    return new Section(this.#values[key] ?? {}, this.pathOf(key));
  }

  sections(key: string): Section[] {
    return this.#list(key).map((value, index) => new Section(value, joinPath(this.pathOf(key), index)));
  }

  texts(key: string): string[] {
    return this.#list(key).map((value, index) => {
      if (typeof value !== "string") throw new Error(`${joinPath(this.pathOf(key), index)} is not a text: quote it`);
      return value;
    });
  }

  #list(key: string): readonly unknown[] {
    const value = this.#values[key] ?? [];
    if (!Array.isArray(value)) throw new Error(`${this.pathOf(key)} is not a list`);
    return value;
  }
}
