import { FAMILIES, FAMILY_NAMES } from "../base/family.ts";
import { socketText } from "../base/text.ts";
import type { ExclusionReason } from "../model/topology.ts";
import { ANY_ADDRESS, parseFrontendKey } from "./keys.ts";
import type { FrontendOrigin, FrontendOutcome } from "./service-view.ts";

/** The kinds of frontends in texts for people. */
export const ORIGIN_NAMES: Readonly<Record<FrontendOrigin, string>> = {
  "cluster-ip": "cluster IP",
  "external-ip": "external IP",
  "load-balancer-ip": "load-balancer IP",
  "node-port": "NodePort",
};

/** A frontend by its key: `10.96.0.10:53/udp`, `NodePort 30080/tcp (IPv4)`. */
export function frontendText(key: string): string {
  const { address, protocol, port } = parseFrontendKey(key);
  if (address !== undefined) return `${socketText(address, port)}/${protocol}`;
  const family = FAMILIES.find((one) => key.startsWith(ANY_ADDRESS[one])) ?? "ip";
  return `${ORIGIN_NAMES["node-port"]} ${port}/${protocol} (${FAMILY_NAMES[family]})`;
}

/** The outcomes of a frontend in texts for people. */
export const OUTCOME_NAMES: Readonly<Record<FrontendOutcome, string>> = {
  served: "served",
  refused: "refused",
  dropped: "dropped",
};

/** Why an endpoint is excluded, in texts for people. */
export const EXCLUSION_NAMES: Readonly<Record<ExclusionReason, string>> = {
  "not-ready": "not ready",
  terminating: "terminating",
  "not-serving": "not serving",
  "not-local": "not on this node",
  drained: "drained (weight 0)",
  "other-zone": "hinted for other zones",
  "other-node": "hinted for other nodes",
};
