import { request as socketRequest } from "node:http";
import { AppError, messageOf } from "../../base/errors.ts";
import { systemErrorCode } from "../../kernel/host.ts";
import { DAEMON_PATHS, type DaemonAnswers } from "../../sync/daemon-protocol.ts";

/** Milliseconds within which a daemon must begin to answer: it may be in the middle of a sync. */
const ANSWER_WITHIN_MS = 10_000;

/** For refusals the daemon lists a kernel set: a full one of 65,536 entries took 17 s on a busy machine. */
const REFUSALS_WITHIN_MS = 60_000;

/** No daemon listens there, or has the socket for itself: another user's, or none at all. */
const NO_DAEMON: ReadonlySet<string> = new Set(["ENOENT", "ECONNREFUSED", "ENOTDIR", "EACCES", "EPERM"]);

/**
 * Asks the daemon on this host by its Unix socket.
 * @param path the socket, "" for none
 * @returns undefined when no daemon answers there
 * @throws AppError HOST for an answer that is not the protocol's
 */
export async function askDaemon<Name extends keyof DaemonAnswers>(
  path: string,
  name: Name,
): Promise<DaemonAnswers[Name] | undefined> {
  if (path === "") return undefined;
  try {
    const { status, body } = await get(
      path,
      DAEMON_PATHS[name],
      name === "refusals" ? REFUSALS_WITHIN_MS : ANSWER_WITHIN_MS,
    );
    if (status === 200) return JSON.parse(body) as DaemonAnswers[Name];
    throw unusable(path, `HTTP status ${status}; is it of another version?`);
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
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("error", reject);
      response.on("end", () =>
        resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks).toString("utf8") }),
      );
    });
    asked.on("timeout", () => asked.destroy(new Error(`no answer within ${timeout / 1000} s`)));
    asked.on("error", reject);
    asked.end();
  });
}

function unusable(path: string, reason: string): AppError {
  return new AppError("HOST", `the daemon at ${path} gives no usable answer: ${reason}`, {
    hint: '--daemon-socket="" goes without the daemon',
  });
}
