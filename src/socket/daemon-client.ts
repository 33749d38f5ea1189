import { accessSync, constants } from "node:fs";
import { request as socketRequest } from "node:http";
import { text } from "node:stream/consumers";
import { AppError, messageOf } from "../base/errors.ts";
import { socketText } from "../base/text.ts";
import type { ListenAddress } from "../config/addresses.ts";
import { netNamespace, systemErrorCode } from "../kernel/host.ts";
import { type DaemonAnswers, type DaemonState, daemonPath } from "./daemon-protocol.ts";

/** Maximum time until a daemon starts to answer. It may be in the middle of a sync. Milliseconds. */
const ANSWER_WITHIN_MS = 10_000;

/**
 * The same for answers that need a listing of the kernel's sets: 65,536 refusals took 17 s on a busy machine.
 */
const LISTINGS_WITHIN_MS = 60_000;
const LISTINGS: ReadonlySet<keyof DaemonAnswers> = new Set(["refusals", "kernel", "others"]);

/** Errors that mean that no daemon listens, or that the socket is for another user. */
const NO_DAEMON: ReadonlySet<string> = new Set(["ENOENT", "ECONNREFUSED", "ENOTDIR", "EACCES", "EPERM"]);

/**
 * Asks the daemon on this host through its Unix socket.
 * @param path the socket, "" for none
 * @returns undefined if no daemon answers
 * @throws AppError HOST for an answer that breaks the protocol
 */
export async function askDaemon<Name extends keyof DaemonAnswers>(
  path: string,
  name: Name,
): Promise<DaemonAnswers[Name] | undefined> {
  if (path === "") return undefined;
  try {
    const within = LISTINGS.has(name) ? LISTINGS_WITHIN_MS : ANSWER_WITHIN_MS;
    const { status, body } = await get(path, daemonPath(name), within);
    if (status === 200) return JSON.parse(body) as DaemonAnswers[Name];
    throw unusable(path, `HTTP status ${status}; is it another version?`);
  } catch (error) {
    if (error instanceof AppError) throw error;
    if (NO_DAEMON.has(systemErrorCode(error))) return undefined;
    throw unusable(path, messageOf(error));
  }
}

function get(
  socketPath: string,
  path: string,
  timeout: number,
): Promise<{ readonly status: number; readonly body: string }> {
  return new Promise((resolve, reject) => {
    const asked = socketRequest({ socketPath, path, timeout }, (response) => {
      text(response).then((body) => resolve({ status: response.statusCode ?? 0, body }), reject);
    });
    asked.on("timeout", () => asked.destroy(new Error(`no answer within ${timeout / 1000} s`)));
    asked.on("error", reject);
    asked.end();
  });
}

function unusable(path: string, reason: string): AppError {
  return new AppError("HOST", `the daemon at ${path} gives no usable answer: ${reason}`, {
    hint: '--daemon-socket="" runs the command without the daemon',
  });
}

/** A daemon that answers on its socket. */
export interface RunningDaemon {
  /** The path of its socket. */
  readonly socket: string;
  readonly state: DaemonState;
  /** Whether it programs the network namespace of this command. */
  readonly isHere: boolean;
}

/**
 * Returns the daemon that answers on a socket; undefined without one.
 * @throws AppError HOST for an answer that breaks the protocol
 */
export async function runningDaemon(socket: string): Promise<RunningDaemon | undefined> {
  const state = await askDaemon(socket, "state");
  if (state === undefined) return undefined;
  return { socket, state, isHere: state.netNamespace === netNamespace() };
}

/** Whether there is a socket that this user must not open: the daemon's is for root. */
export function isDenied(socket: string): boolean {
  try {
    accessSync(socket, constants.W_OK);
    return false;
  } catch (error) {
    return systemErrorCode(error) === "EACCES";
  }
}

/** The URL of a server of this host that listens on an address. */
export function localUrl({ address, port }: ListenAddress): string {
  const local = address === "0.0.0.0" ? "127.0.0.1" : address === "::" ? "::1" : address;
  return `http://${socketText(local, port)}`;
}
