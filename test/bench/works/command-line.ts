import { clusterDirectory } from "../cluster-files.ts";
import { NODE_NAME, sizeText } from "../cluster-objects.ts";
import { atMost, type Figure, median, time, timeWithCpu, type Work } from "../figures.ts";
import { mustRun, nftProxy, type Run } from "../programs.ts";

const SIZE = { services: 10_000, endpoints: 10 };

async function repeated(rounds: number, run: (round: number) => Promise<Run>): Promise<Run[]> {
  const runs: Run[] = [];
  for (let i = 0; i < rounds; i++) runs.push(await run(i));
  return runs;
}

async function fromFiles(command: string, rounds: number): Promise<Run & { readonly work: string }> {
  const argv = nftProxy(
    command,
    `--hostname-override=${NODE_NAME}`,
    `--from=${await clusterDirectory(SIZE)}`,
  );
  const runs = await repeated(rounds, () => mustRun(argv, { output: "/dev/null" }));
  const ms = median(runs.map((run) => run.ms));
  return { ...(runs[0] as Run), ms, work: `${command} --from, ${sizeText(SIZE)}` };
}

/**
 * Compares the CPU time of a small command and of a bare node. CPU time has steps of 10 ms, so this takes the
 * mean of 15 runs of each, in turn.
 */
async function smallCommands(): Promise<Figure[]> {
  const example = new URL("../../fixtures/readme-explain.yaml", import.meta.url).pathname;
  const commands = [
    [process.execPath, "-e", "0"],
    nftProxy("--help"),
    nftProxy("explain", "10.96.0.7:80", "-f", example, `--hostname-override=${NODE_NAME}`),
  ];
  const rounds = await repeated(15 * commands.length, (round) =>
    mustRun(commands[round % commands.length] ?? []),
  );
  const [bareMs = 0, helpMs = 0, explainMs = 0] = commands.map((_, command) => {
    const own = rounds.filter((_run, round) => round % commands.length === command);
    return own.reduce((sum, { cpuMs }) => sum + cpuMs, 0) / own.length;
  });
  const figure = (work: string, ms: number, limit: number): Figure => ({
    work,
    value: `CPU ${time(ms)}`,
    floor: `CPU ${time(bareMs)} (node -e 0)`,
    ratio: ms / bareMs,
    budget: atMost(ms / bareMs, limit, `${limit} times bare node`),
  });
  return [figure("--help", helpMs, 4), figure("explain of one connection, a few objects", explainMs, 5)];
}

/** Measures commands as users start them, as whole processes. */
export const commandLine: Work = {
  name: "command-line",
  summary: "dump --from, check --from, --help, explain",
  run: async () => {
    const dump = await fromFiles("dump", 3);
    const check = await fromFiles("check", 3);
    return [
      {
        work: dump.work,
        value: timeWithCpu(dump.ms, dump.cpuMs),
        budget: atMost(dump.ms, 3000, "3 s"),
        memory: dump.memory,
      },
      { work: check.work, value: timeWithCpu(check.ms, check.cpuMs), memory: check.memory },
      ...(await smallCommands()),
    ];
  },
};
