import { mkdtempSync } from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { debianProgram } from "./debian-program.ts";

/** A sample of an instant query. */
export interface Sample {
  readonly metric: Readonly<Record<string, string>>;
  readonly value: readonly [time: number, value: string];
}

/** A real Prometheus (Debian's package) that scrapes one target each second. */
export class Prometheus {
  readonly #origin: string;
  readonly #stop: () => Promise<void>;

  private constructor(origin: string, stop: () => Promise<void>) {
    this.#origin = origin;
    this.#stop = stop;
  }

  /**
   * Starts it in this process' network namespace.
   * @param target host and port of the metrics
   * @param labels the target's labels
   */
  static async start(target: string, labels: Readonly<Record<string, string>>): Promise<Prometheus> {
    const program = debianProgram("trixie", "prometheus", "prometheus");
    const directory = mkdtempSync(join(tmpdir(), "prometheus-"));
    const scrape = { job_name: "nft-proxy", static_configs: [{ targets: [target], labels }] };
    // JSON is valid YAML.
    await writeFile(
      join(directory, "prometheus.yaml"),
      JSON.stringify({ global: { scrape_interval: "1s" }, scrape_configs: [scrape] }),
    );
    const address = "127.0.0.1:19090";
    const running = execa(
      program,
      [
        `--config.file=${directory}/prometheus.yaml`,
        `--storage.tsdb.path=${directory}/data`,
        `--web.listen-address=${address}`,
        "--log.level=warn",
      ],
      { reject: false, all: true },
    );
    return new Prometheus(`http://${address}`, async () => {
      running.kill("SIGTERM");
      await running;
      await rm(directory, { recursive: true });
    });
  }

  /**
   * Returns the current samples of an expression.
   * @throws Error with Prometheus' message if the expression is wrong
   */
  async query(expression: string): Promise<readonly Sample[]> {
    const body = new URLSearchParams({ query: expression });
    const answer = await fetch(`${this.#origin}/api/v1/query`, { method: "POST", body });
    const { data, error } = (await answer.json()) as { data?: { result: Sample[] }; error?: string };
    if (data === undefined) throw new Error(`${expression}: ${error}`);
    return data.result;
  }

  async stop(): Promise<void> {
    await this.#stop();
  }
}
