import { spawn } from "node:child_process";
import { once } from "node:events";
import { DEFAULT_PASSIVE_HEALTH_CHECK } from "../../../src/features/passive-health-checks/check.ts";
import { nftProgram } from "../../../src/kernel/nft.ts";
import { SliceEndpoints } from "../../../src/model/endpoint-slice.ts";
import type { ServiceName } from "../../../src/model/ids.ts";
import type { ObjectCache } from "../../../src/model/object-cache.ts";
import { creation } from "../../../src/nft/delta.ts";
import { applyDeltas } from "../../../src/sync/apply-deltas.ts";
import { Reconciler } from "../../../src/sync/reconciler.ts";
import { nftTables } from "../../support/nft-tables.ts";
import { type ClusterSize, clusterIP, POD_PORT, SERVICE_PORT } from "../cluster-objects.ts";
import type { Figure, Work } from "../figures.ts";
import { clearTables } from "../kernel.ts";
import { contextsOf, loadCache } from "../load-cache.ts";
import { bringPodsHere } from "../packets.ts";
import { mustRun, ownProgram } from "../programs.ts";

/** There is one Service, so that each change affects all flows. */
const SIZE: ClusterSize = { services: 1, endpoints: 2, protocol: "UDP" };
const CHANGES = 1000;

/** Opens flows to the Service without a pause, and makes changes one after the other. */
async function besideFlows(
  work: string,
  change: (number: number) => Promise<unknown>,
  port = SERVICE_PORT,
): Promise<Figure> {
  const [program = "", ...args] = ownProgram("flow-program.ts", clusterIP(0), String(port), String(POD_PORT));
  const flows = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"] });
  await once(flows.stdout, "data");
  for (let number = 0; number < CHANGES; number++) await change(number);
  flows.stdin.end();
  const [told] = (await once(flows.stdout, "data")) as [Buffer];
  const { perSecond, refused } = JSON.parse(String(told)) as { perSecond: number; refused: number };
  return {
    work: `${work} ${CHANGES.toLocaleString("en")} times: new flows refused`,
    value: `${refused} (${Math.round(perSecond).toLocaleString("en")} flows/s)`,
    budget: { text: "none", holds: refused === 0 },
  };
}

/**
 * Gives the Service a range, and another Service so many ranges beside it that their map is recreated when
 * they go.
 */
async function rangesComeAndGo(
  cache: ObjectCache,
  sync: () => Promise<unknown>,
): Promise<(number: number) => Promise<void>> {
  const [name] = [...cache.serviceNames()];
  const service = name === undefined ? undefined : cache.service(name);
  const [port] = service?.ports ?? [];
  if (service === undefined || port === undefined) throw new Error("no Service was made");
  const ports = (first: number, count: number) => [
    {
      ...port,
      ranges: Array.from({ length: count }, (_, n) => ({ first: first + 2 * n, last: first + 2 * n })),
    },
  ];
  cache.putService({ ...service, ports: ports(POD_PORT, 1) });
  await sync();
  const clusterIPs = { ip: clusterIP(1), ip6: "" };
  const other = { ...service, name: "default/other" as typeof service.name, clusterIPs };
  return async (number) => {
    if (number % 2 === 0) cache.putService({ ...other, ports: ports(1000, 200) });
    else cache.deleteService(other.name);
    await sync();
  };
}

/**
 * Adds and removes the only Service with passive health checks, for which the filter chains are rewritten.
 */
function watchedServiceComesAndGoes(
  cache: ObjectCache,
  sync: () => Promise<unknown>,
): (number: number) => Promise<unknown> {
  const [service] = [...cache.serviceNames()].map((name) => cache.service(name));
  const [slice] = cache.allSlices();
  if (service === undefined || slice === undefined) throw new Error("no Service was made");
  const name = "default/watched" as ServiceName;
  const ports = service.ports.map((port) => ({ ...port, protocol: "tcp" as const }));
  const watched = { ...service, name, ports, clusterIPs: { ip: clusterIP(1), ip6: "" } };
  cache.putSlice({
    ...slice,
    name: "watched-1",
    service: name,
    ports: slice.ports.map((port) => ({ ...port, protocol: "tcp" as const })),
  });
  return (number) => {
    cache.putService({
      ...watched,
      features: {
        "passive-health-checks": { check: number % 2 === 0 ? DEFAULT_PASSIVE_HEALTH_CHECK : "off" },
      },
    });
    return sync();
  };
}

/** Measures packets that are in flight while rules take effect. */
export const underWay: Work = {
  name: "under-way",
  summary: "new flows while tables are made anew, and while an endpoint comes and goes",
  run: async () => {
    await bringPodsHere();
    // The flows get no answers, and the kernel's table of connections must not fill up.
    await mustRun(["sysctl", "-qw", "net.netfilter.nf_conntrack_udp_timeout=1"]);
    await clearTables();
    const nft = nftProgram({ path: "nft" });
    const cache = loadCache(SIZE);
    const tables = nftTables(nft);
    const reconciler = new Reconciler({ cache, nft, tables });
    const sync = () =>
      reconciler.sync({ nodeContext: contextsOf(cache, "off"), services: cache.takeDirty() });
    await sync();
    const anew = Object.values(reconciler.state.ruleset).map((table) => creation(table, "recreate"));
    const [slice] = cache.allSlices();
    if (slice === undefined) throw new Error("no EndpointSlice was made");
    return [
      await besideFlows("both tables made anew", () => applyDeltas(nft, tables, anew)),
      await besideFlows("one of two endpoints gone, and come", async (number) => {
        cache.putSlice(
          number % 2 === 0
            ? { ...slice, endpoints: new SliceEndpoints([...slice.endpoints].slice(0, 1)) }
            : slice,
        );
        await sync();
        // Makes the balancing chain for two endpoints be recreated each time.
        await reconciler.deleteStaleChains();
      }),
      await besideFlows(
        "200 ranges of another Service gone, and come",
        await rangesComeAndGo(cache, sync),
        POD_PORT,
      ),
      await besideFlows(
        "another Service's passive health checks on, and off",
        watchedServiceComesAndGoes(cache, sync),
      ),
    ];
  },
};
