import { type ChildProcess, type SpawnOptionsWithoutStdio, spawn } from "node:child_process";
import { ExecAuth } from "@kubernetes/client-node/dist/exec_auth.js";

/** Time after which a plugin is killed, milliseconds. It may ask a server, which may be slow. */
export const PLUGIN_LIMIT = 60_000;

/**
 * Returns authentication by users' credential plugins. An answer is reused while it is valid.
 * @param limit time after which a plugin is killed, milliseconds
 */
export function pluginAuthentication(limit: number): ExecAuth {
  const auth = new ExecAuth();
  // client-node 1.4.0 has no option for this.
  Reflect.set(auth, "execFn", (path: string, args: readonly string[] = [], options = {}) =>
    startWithLimit(path, args, options, limit),
  );
  return auth;
}

/**
 * Starts a program that is killed after some time, or with this process. The programs that it started are
 * killed, too, but not at a terminal.
 */
function startWithLimit(
  path: string,
  args: readonly string[],
  options: SpawnOptionsWithoutStdio,
  limit: number,
): ChildProcess {
  // Only the terminal's foreground group gets Ctrl-C.
  const isGroup = !process.stdin.isTTY;
  const child = spawn(path, args, { ...options, detached: isGroup });
  const kill = () => {
    try {
      if (child.pid !== undefined) process.kill(isGroup ? -child.pid : child.pid, "SIGKILL");
    } catch {
      // They have ended.
    }
  };
  const timer = setTimeout(() => {
    child.emit("error", new Error(`it did not end within ${limit / 1000} s`));
    kill();
    // A program in a session of its own may keep them open.
    child.stdout?.destroy();
    child.stderr?.destroy();
  }, limit);
  process.once("exit", kill);
  return child.once("close", () => {
    clearTimeout(timer);
    process.off("exit", kill);
  });
}
