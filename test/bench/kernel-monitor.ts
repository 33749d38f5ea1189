import { type ChildProcess, spawn } from "node:child_process";
import { pause, runProgram } from "./programs.ts";

const PATIENCE = 60_000;

/**
 * Learns from the kernel itself when an element was added, through `nft monitor`, which the kernel notifies
 * with the commit.
 */
export class KernelMonitor {
  readonly #child: ChildProcess;
  /** An awaited text, and the function to call for it. */
  readonly #awaited = new Map<string, (at: number) => void>();
  #rest = "";

  private constructor() {
    this.#child = spawn("nft", ["-j", "monitor", "elements"], { stdio: ["ignore", "pipe", "ignore"] });
    this.#child.stdout?.setEncoding("utf8").on("data", (chunk: string) => this.#hear(chunk));
  }

  /** Starts, and resolves when it receives notifications. */
  static async start(): Promise<KernelMonitor> {
    const monitor = new KernelMonitor();
    await monitor.caughtUp();
    return monitor;
  }

  /** Resolves when it has received everything up to now. After a large change it is seconds late. */
  async caughtUp(): Promise<void> {
    const table = ["ip", "bench-monitor"];
    await runProgram(["nft", "add", "table", ...table]);
    await runProgram(["nft", "add", "set", ...table, "s", "{ type ipv4_addr; }"]);
    const heard = this.added("198.51.100.1");
    const quiet = { is: true };
    void heard.then(() => {
      quiet.is = false;
    });
    while (quiet.is) {
      await runProgram(["nft", "add", "element", ...table, "s", "{ 198.51.100.1 }"]);
      await runProgram(["nft", "delete", "element", ...table, "s", "{ 198.51.100.1 }"]);
      await pause(50);
    }
    await runProgram(["nft", "delete", "table", ...table]);
  }

  /**
   * Resolves with the time ({@link performance}) at which an element with this address is added. Call it
   * before the change.
   */
  added(address: string): Promise<number> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`${address} does not come to the kernel`)), PATIENCE);
      this.#awaited.set(`"${address}"`, (at) => {
        clearTimeout(timer);
        resolve(at);
      });
    });
  }

  stop(): void {
    this.#child.kill();
  }

  #hear(chunk: string): void {
    const at = performance.now();
    const lines = (this.#rest + chunk).split("\n");
    this.#rest = lines.pop() ?? "";
    for (const line of lines) {
      if (!line.startsWith('{"add"')) continue;
      for (const [text] of line.matchAll(/"\d+\.\d+\.\d+\.\d+"/g)) {
        this.#awaited.get(text)?.(at);
        this.#awaited.delete(text);
      }
    }
  }
}
