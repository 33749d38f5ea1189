import { dirname, isAbsolute, join } from "node:path";
// The package's index would make the bundle carry every generated API class.
import { KubeConfig } from "@kubernetes/client-node/dist/config.js";
import type { Cluster, User } from "@kubernetes/client-node/dist/config_types.js";
import { parseDocument } from "yaml";
import { describeSchemaError } from "../../base/schema-error.ts";
import { firstLine, listText, quoted } from "../../base/text.ts";
import { compileKubeconfigValidator } from "./kubeconfig.validator.ts";

/** A cluster, and the user of requests to it. File names are absolute. */
export interface KubeconfigContext {
  /** "" without a kubeconfig. */
  readonly name: string;
  readonly cluster: Cluster;
  readonly user: User;
  /**
   * "" for none. client-node 1.4.0 does not know this field, which kubeadm's kubeconfig for kube-proxy relies
   * on.
   */
  readonly tokenFile: string;
}

/** The fields of a kubeconfig that are read here, as schemas/kubeconfig.schema.json accepts them. */
interface RawKubeconfig {
  readonly "current-context"?: string | null;
  readonly users?:
    | readonly { readonly name: string; readonly user?: { readonly tokenFile?: string | null } | null }[]
    | null;
}

/**
 * Reads a context from a kubeconfig's text. Source:
 * https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/
 * @param path the path of the file: the file names in it are relative to its directory
 * @param chosen the name of the context, "" for the current one
 * @throws Error with the reason, on one line and without any value that may be secret
 */
export function readContext(text: string, path: string, chosen = ""): KubeconfigContext {
  const document = validated(parsed(text));
  const config = new KubeConfig();
  // As JSON, because client-node's YAML parser quotes the text in its errors, and makes a date of some
  // tokens.
  config.loadFromString(JSON.stringify(document));
  config.makePathsAbsolute(dirname(path));
  const name = chosen || (document["current-context"] ?? "");
  config.setCurrentContext(name);
  const context = config.getContextObject(name);
  const cluster = config.getCurrentCluster();
  if (context === null || cluster === null) {
    const contexts = listText(config.getContexts().map((each) => each.name));
    throw new Error(
      chosen === ""
        ? `current-context ${quoted(name)} names no context with a cluster`
        : `it has no context ${quoted(name)} with a cluster; its contexts are: ${contexts}`,
    );
  }
  const user = config.getCurrentUser();
  if (user === null && context.user)
    throw new Error(`the user ${quoted(context.user)} of the context is missing`);
  const absolute = (file: string) => (file === "" || isAbsolute(file) ? file : join(dirname(path), file));
  const exec = user?.exec;
  return {
    name,
    cluster,
    user: {
      ...(user ?? { name: "" }),
      // As in client-go: a relative path is relative to the kubeconfig, a bare name is looked up in PATH.
      ...(exec?.command.includes("/") ? { exec: { ...exec, command: absolute(exec.command) } } : {}),
    },
    tokenFile: absolute(document.users?.find((each) => each.name === context.user)?.user?.tokenFile ?? ""),
  };
}

function parsed(text: string): unknown {
  const document = parseDocument(text);
  const [error] = document.errors;
  if (error?.code === "MULTIPLE_DOCS") throw new Error("it has several documents");
  // The message continues with the line itself, which may contain a token.
  if (error !== undefined) throw new Error(firstLine(error.message));
  return document.toJS();
}

function validated(document: unknown): RawKubeconfig {
  const validate = compileKubeconfigValidator();
  if (validate(document)) return document as RawKubeconfig;
  const [error] = validate.errors ?? [];
  if (error === undefined) throw new Error("it is invalid");
  const { path, reason } = describeSchemaError({ ...error, data: undefined });
  throw new Error(`${path || "it"} ${reason}`);
}
