import { once } from "node:events";
import { chmodSync, createWriteStream, mkdirSync, writeFileSync } from "node:fs";
import { cachePath, clusterDirectory } from "../cluster-files.ts";
import { clusterIP, NODE_NAME, POD_PORT, podIP, SERVICE_PORT, sizeText } from "../cluster-objects.ts";
import { atMost, type Figure, megabytes, timeWithCpu, type Work } from "../figures.ts";
import { mustRun, nftProxy, type Run } from "../programs.ts";

const SIZE = { services: 10_000, endpoints: 10 };

// Numbers of linux/netlink.h and linux/netfilter/nfnetlink_conntrack.h.
const [NEW_FLOW, DONE, MULTI, IPV4, TCP, ESTABLISHED] = [1 << 8, 3, 2, 2, 6, 3];

function number(value: number, bytes: 1 | 2 | 4): Buffer {
  const buffer = Buffer.alloc(bytes);
  buffer.writeUIntBE(value, 0, bytes);
  return buffer;
}

/** Returns a netlink attribute in the byte order of this machine. */
function attribute(type: number, ...content: readonly Buffer[]): Buffer {
  const bytes = Buffer.concat(content);
  const header = Buffer.from(Uint16Array.of(4 + bytes.length, type).buffer);
  return Buffer.concat([header, bytes], (4 + bytes.length + 3) & ~3);
}

function message(type: number, ...content: readonly Buffer[]): Buffer {
  const body = Buffer.concat(content);
  const header = Uint32Array.of(16 + body.length, type | (MULTI << 16), 0, 0);
  return Buffer.concat([Buffer.from(header.buffer), body]);
}

function tuple(type: number, from: string, fromPort: number, to: string, toPort: number): Buffer {
  const address = (text: string) => Buffer.from(text.split(".").map(Number));
  return attribute(
    type,
    attribute(1, attribute(1, address(from)), attribute(2, address(to))),
    attribute(
      2,
      attribute(1, number(TCP, 1)),
      attribute(2, number(fromPort, 2)),
      attribute(3, number(toPort, 2)),
    ),
  );
}

/** Returns an entry of the kernel's conntrack table. One in fifty goes to an endpoint of no Service. */
function entry(i: number): Buffer {
  const service = i % SIZE.services;
  const pod = i % 50 === 0 ? 2_000_000 + (i % 1000) : service * SIZE.endpoints + (i % SIZE.endpoints);
  const client = `10.200.${(i >> 8) & 255}.${i & 255}`;
  const port = 1024 + (i % 60_000);
  return message(
    NEW_FLOW,
    Buffer.of(IPV4, 0, 0, 0),
    tuple(1, client, port, clusterIP(service), SERVICE_PORT),
    tuple(2, podIP(pod), POD_PORT, client, port),
    attribute(3, number(0x1ae, 4)),
    attribute(7, number(86_400 - (i % 5000), 4)),
    attribute(4, attribute(1, attribute(1, number(ESTABLISHED, 1)))),
    attribute(8, number(0, 4)),
    attribute(12, number(i, 4)),
    attribute(11, number(1, 4)),
  );
}

/** Makes a directory with a `socat` that answers with this number of IPv4 entries, and none of IPv6. */
async function fakeSocat(entries: number): Promise<string> {
  const directory = cachePath(`flows-${entries}`);
  mkdirSync(directory, { recursive: true });
  const listing = createWriteStream(`${directory}/ip`);
  for (let i = 0; i < entries; i++) {
    if (!listing.write(entry(i))) await once(listing, "drain");
  }
  const done = message(DONE, number(0, 4));
  listing.end(done);
  await once(listing, "close");
  writeFileSync(`${directory}/ip6`, done);
  const answer = (family: string) => `dd bs=64k count=1 of=/dev/null 2>/dev/null; cat ${directory}/${family}`;
  writeFileSync(`${directory}/socat`, `#!/bin/sh\n${answer("ip")}\n${answer("ip6")}\nexec cat\n`);
  chmodSync(`${directory}/socat`, 0o755);
  return directory;
}

async function run(entries: number): Promise<Run> {
  const path = `PATH=${await fakeSocat(entries)}:${process.env.PATH}`;
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
