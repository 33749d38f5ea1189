import { clusterDirectory } from "../cluster-files.ts";
import { NODE_NAME, sizeText } from "../cluster-objects.ts";
import { atMost, type Figure, median, time, timeWithCpu, type Work } from "../figures.ts";
import { mustRun, nftProxy, type Run } from "../programs.ts";

const SIZE = { services: 10_000, endpoints: 10 };

async function repeated(rounds: number, run: () => Promise<Run>): Promise<Run[]> {
  const runs: Run[] = [];
  for (let i = 0; i < rounds; i++) runs.push(await run());
  return runs;
}

async function fromFiles(command: string, rounds: number): Promise<Run & { readonly work: string }> {
  const argv = nftProxy(command, `--hostname-override=${NODE_NAME}`, `--from=${await clusterDirectory(SIZE)}`);
  const runs = await repeated(rounds, () => mustRun(argv, { output: "/dev/null" }));
  const ms = median(runs.map((run) => run.ms));
  return { ...(runs[0] as Run), ms, work: `${command} --from, ${sizeText(SIZE)}` };
}

/** Commands as a user starts them, whole processes. */
export const commandLine: Work = {
  name: "command-line",
  summary: "dump --from, check --from, --help",
  run: async () => {
    const dump = await fromFiles("dump", 3);
    const check = await fromFiles("check", 3);
    const help = await repeated(15, () => mustRun(nftProxy("--help")));
    const bare = await repeated(15, () => mustRun([process.execPath, "-e", "0"]));
    const [helpMs, bareMs] = [help, bare].map((runs) => median(runs.map(({ ms }) => ms))) as [number, number];
    const figures: Figure[] = [
      {
        work: dump.work,
        value: timeWithCpu(dump.ms, dump.cpuMs),
        budget: atMost(dump.ms, 3000, "3 s"),
        memory: dump.memory,
      },
      { work: check.work, value: timeWithCpu(check.ms, check.cpuMs), memory: check.memory },
      {
        work: "--help",
        value: time(helpMs),
        floor: `${time(bareMs)} (node -e 0)`,
        ratio: helpMs / bareMs,
        budget: atMost(Math.max(helpMs / 250, helpMs / bareMs / 5), 1, "250 ms, and 5 times bare node"),
      },
    ];
    return figures;
  },
};
