import { type ClusterSize, podIP } from "../cluster-objects.ts";
import type { Figure, Work } from "../figures.ts";
import { clearTables } from "../kernel.ts";
import {
  bringPodsHere,
  onOneProcessor,
  programKubeProxyShape,
  programRules,
  straight,
  throughService,
  withEcho,
} from "../packets.ts";

const ENDPOINTS = 10;
/** The number of Services that get packets, of all Services. */
const ASKED = 8;

const microseconds = (ms: number): string => `${(ms * 1000).toFixed(0)} us`;

async function compare(services: number): Promise<Figure> {
  const size: ClusterSize = { services, endpoints: ENDPOINTS, protocol: "UDP" };
  await programKubeProxyShape(size);
  const theirs = await throughService(ASKED);
  await programRules(size);
  const own = await throughService(ASKED);
  await clearTables();
  const direct = await straight(podIP(0));
  return {
    work: `first packet, UDP round trip through a ClusterIP, ${services.toLocaleString("en")} Services, p50`,
    value: microseconds(own),
    floor: `${microseconds(theirs)} (kube-proxy's shape); ${microseconds(direct)} (no rules, straight to the pod)`,
    ratio: own / theirs,
  };
}

/** Measures the cost of the rules for a new flow. */
export const firstPacket: Work = {
  name: "first-packet",
  summary: "round trip of a flow's first packet, against kube-proxy's shape",
  run: async () => {
    await bringPodsHere();
    const both = async () => [await compare(10), await compare(10_000)];
    return await onOneProcessor(() => withEcho(ASKED * ENDPOINTS, both));
  },
};
