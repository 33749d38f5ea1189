import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { V1Container, V1PodSpec } from "@kubernetes/client-node";
import { execa } from "execa";
import { IMAGE_ENVIRONMENT } from "./image-environment.ts";
import { buildWithComponent } from "./overlays.ts";

const DOCKERFILE = readFileSync(fileURLToPath(new URL("../../Dockerfile", import.meta.url)), "utf8");
const ENTRYPOINT = JSON.parse(/^ENTRYPOINT (.*)$/m.exec(DOCKERFILE)?.[1] ?? "") as string[];

/**
 * The path at which the pod sees the host's system, because the image has no program that drops capabilities.
 */
const TOOLS = "/mnt";
const SETPRIV = [
  `${TOOLS}/lib64/ld-linux-x86-64.so.2`,
  "--library-path",
  `${TOOLS}/usr/lib/x86_64-linux-gnu`,
  `${TOOLS}/usr/bin/setpriv`,
];

/** A process in a root file system. Its result has the output, even if it failed. */
export type ContainerProcess = ReturnType<typeof startIn>;

function startIn(root: string, command: readonly string[], env: Readonly<Record<string, string>>) {
  return execa("chroot", [root, ...command], { env, extendEnv: false, all: true, reject: false });
}

/** A pod's settings from outside. */
export interface PodInputs {
  readonly nodeName: string;
  /** The control plane's address. */
  readonly host: string;
  readonly port: string;
  /** The token of its service account. */
  readonly token: string;
  readonly ca: string;
}

/**
 * Runs the pod of the overlay `explicit-control-plane` with the component `host-settings`, without a
 * container engine. It has the pod's arguments, environment, capabilities and mounts, in a root file system
 * made by scripts/make-image-root.sh. Use it only inside private namespaces.
 */
export class Pod {
  readonly #root: string;
  readonly #inputs: PodInputs;
  readonly #spec: V1PodSpec;
  readonly #configuration: string;

  constructor(root: string, inputs: PodInputs) {
    const manifests = buildWithComponent("explicit-control-plane", "host-settings");
    const daemonSet = manifests.find(({ kind }) => kind === "DaemonSet");
    const configMap = manifests.find(
      ({ kind, metadata }) => kind === "ConfigMap" && metadata.name === "nft-proxy",
    );
    this.#root = root;
    this.#inputs = inputs;
    this.#spec = (daemonSet as unknown as { spec: { template: { spec: V1PodSpec } } }).spec.template.spec;
    this.#configuration = (configMap?.data as Record<string, string> | undefined)?.["config.yaml"] ?? "";
  }

  /** Mounts the files that the kubelet would mount, and makes the root read-only except for /tmp. */
  async mount(): Promise<void> {
    // Debian's /var/run is a link to /run. Followed from here, it would lead out of the root.
    const account = `${this.#root}/run/secrets/kubernetes.io/serviceaccount`;
    for (const folder of [account, `${this.#root}/etc/nft-proxy`, `${this.#root}${TOOLS}`]) {
      mkdirSync(folder, { recursive: true });
    }
    writeFileSync(`${account}/token`, this.#inputs.token);
    writeFileSync(`${account}/ca.crt`, this.#inputs.ca);
    writeFileSync(`${this.#root}/etc/nft-proxy/config.yaml`, this.#configuration);
    await execa("mount", ["--bind", this.#root, this.#root]);
    await execa("mount", ["-o", "remount,bind,ro", this.#root]);
    await execa("mount", ["--bind", `${this.#root}-build`, `${this.#root}${TOOLS}`]);
    await execa("mount", ["--bind", "/dev", `${this.#root}/dev`]);
    await execa("mount", ["-t", "proc", "proc", `${this.#root}/proc`]);
    await execa("mount", ["-t", "tmpfs", "tmpfs", `${this.#root}/tmp`]);
  }

  /** Makes the kernel's settings read-only, as they are to containers without privileges. */
  async confine(): Promise<void> {
    const settings = `${this.#root}/proc/sys`;
    await execa("mount", ["--bind", settings, settings]);
    await execa("mount", ["-o", "remount,bind,ro", settings]);
  }

  /** Runs the init container with its privileges. */
  init(): ContainerProcess {
    const container = this.#spec.initContainers?.[0];
    if (container === undefined) throw new Error("the pod has no init container");
    return this.#start([], [...ENTRYPOINT, ...(container.args ?? [])]);
  }

  /** Starts the daemon. */
  daemon(): ContainerProcess {
    const arguments_ = this.#container.args ?? [];
    const args = arguments_.map((argument) => argument.replace("$(NODE_NAME)", this.#inputs.nodeName));
    return this.exec([...ENTRYPOINT, ...args]);
  }

  /** Starts a command with the daemon's capabilities, as `kubectl exec` does. */
  exec(command: readonly string[]): ContainerProcess {
    const added = this.#container.securityContext?.capabilities?.add ?? [];
    const bounding = ["-all", ...added.map((name) => `+${name.toLowerCase()}`)].join(",");
    return this.#start([...SETPRIV, `--bounding-set=${bounding}`, "--no-new-privs"], command);
  }

  get #container(): V1Container {
    const [container] = this.#spec.containers;
    if (container === undefined) throw new Error("the pod has no container");
    return container;
  }

  #start(wrap: readonly string[], command: readonly string[]): ContainerProcess {
    const { host, port } = this.#inputs;
    const env = {
      ...IMAGE_ENVIRONMENT,
      KUBERNETES_SERVICE_HOST: host,
      KUBERNETES_SERVICE_PORT: port,
    };
    return startIn(this.#root, [...wrap, ...command], env);
  }
}
