import { accessSync, constants } from "node:fs";
import { socketText } from "../../base/text.ts";
import type { ListenAddress, ProxyOptions } from "../../config/options.ts";
import { netNamespace, systemErrorCode } from "../../kernel/host.ts";
import type { DaemonState } from "../../sync/daemon-protocol.ts";
import { doctorHost } from "../doctor/doctor-host.ts";
import { askDaemon } from "./daemon-client.ts";

/** A daemon that answers on its socket. */
export interface RunningDaemon {
  /** Its socket. */
  readonly socket: string;
  readonly state: DaemonState;
  /** Whether it programs the network namespace that this command is in. */
  readonly isHere: boolean;
}

/**
 * The daemon that answers on a socket; undefined without one.
 * @throws AppError HOST for an answer that is not the protocol's
 */
export async function runningDaemon(socket: string): Promise<RunningDaemon | undefined> {
  const state = await askDaemon(socket, "state");
  if (state === undefined) return undefined;
  return { socket, state, isHere: state.netNamespace === netNamespace() };
}

/** Whether there is a socket that this user may not open: the daemon's is for root. */
export function isDenied(socket: string): boolean {
  try {
    accessSync(socket, constants.W_OK);
    return false;
  } catch (error) {
    return systemErrorCode(error) === "EACCES";
  }
}

/** The URL at which this host itself reaches a server that listens on an address. */
export function localUrl({ address, port }: ListenAddress): string {
  const local = address === "0.0.0.0" ? "127.0.0.1" : address === "::" ? "::1" : address;
  return `http://${socketText(local, port)}`;
}

/**
 * Where an nft-proxy answers that programs this network namespace: its socket or, from outside of its container, its
 * metrics address. Undefined when none does.
 */
export async function daemonAddress(options: ProxyOptions): Promise<string | undefined> {
  const daemon = await runningDaemon(options.daemonSocket).catch(() => undefined);
  if (daemon?.isHere) return daemon.socket;
  const { metricsBindAddress: metrics } = options;
  if (metrics === undefined || metrics.port === 0) return undefined;
  const url = `${localUrl(metrics)}/metrics`;
  try {
    const { body } = await doctorHost.get(url);
    return body.includes("\nnft_proxy_") ? url : undefined;
  } catch {
    return undefined;
  }
}
