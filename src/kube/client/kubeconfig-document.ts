import { isAbsolute, join } from "node:path";
// The package's index loads every generated API class: 450 ms and 70 MB. This module is all that is needed.
import {
  type Cluster,
  newClusters,
  newContexts,
  newUsers,
  type User,
} from "@kubernetes/client-node/dist/config_types.js";
import { parseDocument } from "yaml";
import { describeSchemaError, quoted } from "../../base/schema-error.ts";
import { compileKubeconfigValidator } from "./kubeconfig.validator.ts";

/** The cluster and user of a kubeconfig's current context. File names are absolute. */
export interface CurrentContext {
  readonly cluster: Cluster;
  readonly user: User;
  /** "" for none. client-node 1.4.0 does not know this field, which kubeadm's kubeconfig for kube-proxy relies on. */
  readonly tokenFile: string;
}

/** The fields of a kubeconfig that are read here, as schemas/kubeconfig.schema.json accepts them. */
interface RawKubeconfig {
  readonly "current-context"?: string | null;
  readonly contexts?: unknown;
  readonly clusters?: unknown;
  readonly users?: readonly RawUser[] | null;
}

interface RawUser {
  readonly name: string;
  readonly user?: { readonly tokenFile?: string | null } | null;
}

/**
 * Reads the current context from a kubeconfig's text. Source: https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/
 * @param directory the directory of the file, to which the file names in it are relative
 * @throws Error with the reason, on one line and without any value that may be secret
 */
export function readCurrentContext(text: string, directory: string): CurrentContext {
  const document = validated(parsed(text));
  const name = document["current-context"] ?? "";
  const context = newContexts(document.contexts).find((each) => each.name === name);
  const cluster = newClusters(document.clusters).find((each) => each.name === context?.cluster);
  if (context === undefined || cluster === undefined)
    throw new Error(`current-context ${quoted(name)} names no context with a cluster`);
  const user: User | undefined = newUsers(document.users).find((each) => each.name === context.user);
  if (user === undefined && context.user)
    throw new Error(`the user ${quoted(context.user)} of the current context is missing`);
  const raw = document.users?.find((each) => each.name === context.user);
  const absolute = (file: string | undefined) => (!file || isAbsolute(file) ? (file ?? "") : join(directory, file));
  return {
    cluster: { ...cluster, caFile: absolute(cluster.caFile) },
    user: {
      ...(user ?? { name: "" }),
      certFile: absolute(user?.certFile),
      keyFile: absolute(user?.keyFile),
      ...(user?.exec ? { exec: { ...user.exec, command: commandOf(user.exec.command, absolute) } } : {}),
    },
    tokenFile: absolute(raw?.user?.tokenFile ?? ""),
  };
}

function parsed(text: string): unknown {
  const document = parseDocument(text);
  const [error] = document.errors;
  if (error?.code === "MULTIPLE_DOCS") throw new Error("it has several documents");
  // The message goes on with the line itself, which may hold a token.
  if (error !== undefined) throw new Error(error.message.replace(/:?\n.*/s, ""));
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

/** As in client-go: a relative path is relative to the kubeconfig, a bare name is looked up in PATH. */
function commandOf(command: string, absolute: (file: string) => string): string {
  return command.includes("/") ? absolute(command) : command;
}
