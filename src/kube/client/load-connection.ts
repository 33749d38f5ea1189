import { AppError } from "../../base/errors.ts";
import { socketText } from "../../base/text.ts";
import { type Connection, parseServer } from "./connection.ts";
import { loadKubeconfig } from "./kubeconfig.ts";
import { proxyOfEnvironment } from "./proxy-of-environment.ts";
import { RotatingFile } from "./rotating-file.ts";

/** Options of {@link loadConnection}. */
export interface ConnectionOptions {
  /** Path of a kubeconfig file, "" for none. */
  readonly kubeconfig: string;
  /** URL of the API server that overrides the kubeconfig's; "" for none. */
  readonly master: string;
  /** The process's environment. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Directory of the Pod's ServiceAccount token and CA. */
  readonly serviceAccount?: string;
}

const SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount";

/**
 * Finds the API server as kube-proxy does: from the kubeconfig, else from `master` alone, else from the Pod's environment;
 * and the proxy to it: from the kubeconfig, else from the environment.
 * @throws AppError BAD_CONFIG when none is configured or a value is wrong, UNREADABLE_INPUT for an unreadable kubeconfig
 */
export async function loadConnection(options: ConnectionOptions): Promise<Connection> {
  const connection = await findServer(options);
  return { ...connection, proxy: connection.proxy ?? proxyOfEnvironment(connection.server, options.env) };
}

async function findServer(options: ConnectionOptions): Promise<Connection> {
  if (options.kubeconfig !== "") {
    const connection = await loadKubeconfig(options.kubeconfig);
    return options.master === "" ? connection : { ...connection, server: parseServer(options.master, "--master") };
  }
  if (options.master !== "")
    return { server: parseServer(options.master, "--master"), credentials: async () => ({ headers: {}, tls: {} }) };
  return inCluster(options);
}

async function inCluster(options: ConnectionOptions): Promise<Connection> {
  const { KUBERNETES_SERVICE_HOST: host = "", KUBERNETES_SERVICE_PORT: port = "443" } = options.env;
  const directory = options.serviceAccount ?? SERVICE_ACCOUNT;
  if (host === "") {
    throw new AppError("BAD_CONFIG", "no API server is configured", {
      hint: "give --kubeconfig or --master, or run as a Pod; --from, where a command has it, takes objects from files",
    });
  }
  const server = parseServer(`https://${socketText(host, port)}`, "KUBERNETES_SERVICE_HOST");
  const token = new RotatingFile(`${directory}/token`);
  const ca = new RotatingFile(`${directory}/ca.crt`);
  return {
    server,
    credentials: async () => ({
      headers: { authorization: `Bearer ${(await token.read()).trim()}` },
      tls: { ca: await ca.read() },
    }),
  };
}
