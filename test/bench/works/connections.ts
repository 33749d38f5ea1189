import { once } from "node:events";
import { chmodSync, createWriteStream, mkdirSync, writeFileSync } from "node:fs";
import { cachePath, clusterDirectory } from "../cluster-files.ts";
import { clusterIP, NODE_NAME, POD_PORT, podIP, SERVICE_PORT, sizeText } from "../cluster-objects.ts";
import { atMost, type Figure, megabytes, timeWithCpu, type Work } from "../figures.ts";
import { mustRun, nftProxy, type Run } from "../programs.ts";

const SIZE = { services: 10_000, endpoints: 10 };

/** Returns an entry as conntrack prints it. One in fifty goes to an endpoint of no Service. */
function entry(i: number): string {
  const service = i % SIZE.services;
  const pod = i % 50 === 0 ? 2_000_000 + (i % 1000) : service * SIZE.endpoints + (i % SIZE.endpoints);
  const client = `10.200.${(i >> 8) & 255}.${i & 255}`;
  const port = 1024 + (i % 60_000);
  return (
    `tcp      6 ${86_400 - (i % 5000)} ESTABLISHED src=${client} dst=${clusterIP(service)} sport=${port} ` +
    `dport=${SERVICE_PORT} src=${podIP(pod)} dst=${client} sport=${POD_PORT} dport=${port} [ASSURED] mark=0 use=1\n`
  );
}

/** Makes a directory with a `conntrack` that prints this number of entries. */
async function fakeConntrack(entries: number): Promise<string> {
  const directory = cachePath(`conntrack-${entries}`);
  mkdirSync(directory, { recursive: true });
  const listing = createWriteStream(`${directory}/listing`);
  for (let i = 0; i < entries; i++) {
    if (!listing.write(entry(i))) await once(listing, "drain");
  }
  listing.end();
  await once(listing, "close");
  writeFileSync(`${directory}/conntrack`, `#!/bin/sh\nexec cat ${directory}/listing\n`);
  chmodSync(`${directory}/conntrack`, 0o755);
  return directory;
}

async function run(entries: number): Promise<Run> {
  const path = `PATH=${await fakeConntrack(entries)}:${process.env.PATH}`;
  const objects = ["--from", await clusterDirectory(SIZE), `--hostname-override=${NODE_NAME}`];
  return await mustRun(["env", path, ...nftProxy("connections", ...objects)], { output: "/dev/null" });
}

/** Measures `connections` with a million entries. Its memory must depend only on the objects. */
export const connections: Work = {
  name: "connections",
  summary: "connections at a million conntrack entries, from a generated listing",
  run: async () => {
    const few = await run(1000);
    const many = await run(1_000_000);
    const growth = many.memory.node - few.memory.node;
    const figure: Figure = {
      work: `connections, 1,000,000 entries, ${sizeText(SIZE)}`,
      value: timeWithCpu(many.ms, many.cpuMs),
      floor: `${timeWithCpu(few.ms, few.cpuMs)} (1,000 entries)`,
      ratio: many.ms / few.ms,
      budget: atMost(growth, 80e6, `80 MB more than with 1,000 entries (${megabytes(growth)})`),
      memory: many.memory,
    };
    return [figure];
  },
};
