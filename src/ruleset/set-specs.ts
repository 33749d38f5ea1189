import type { Family } from "../base/family.ts";
import type { DataType, SetSpec } from "../nft/ast/ruleset.ts";
import { type CountedMap, type FamilyContext, isInTable } from "./node-context.ts";
import {
  AFFINITY,
  AFFINITY_CHOOSERS,
  AFFINITY_IDS,
  AFFINITY_TIMEOUTS,
  BALANCERS,
  CLUSTER_IPS,
  ENDPOINTS,
  HAIRPIN_CONNECTIONS,
  LISTS,
  NO_ENDPOINTS,
  NODEPORT_IPS,
  PORT_PROTOCOLS,
  SOURCE_RANGE_LISTS,
  SOURCE_RANGES,
} from "./sets.ts";

/** A set or map that no packet fills, without counters. */
export const PLAIN = { dynamic: false, counter: false } as const;

/** The same for a map of frontends, with counters if a feature wants them. */
export function frontendMap(map: CountedMap, context: FamilyContext) {
  const isCounted = context.features.some(({ counted }) => counted?.(context).includes(map));
  return { ...PLAIN, counter: isCounted };
}

/** The data type of a family's addresses. */
export function addressType(family: Family): DataType {
  return family === "ip" ? "ipv4_addr" : "ipv6_addr";
}

/** The sets and maps of one family that do not depend on Services. */
export function setSpecs(context: FamilyContext): SetSpec[] {
  const { family, affinityMapSize } = context;
  const address = addressType(family);
  const frontend: DataType[] = [address, "inet_proto", "inet_service"];
  const listEntry: DataType[] = ["classid", "integer"];
  return [
    { ...PLAIN, name: PORT_PROTOCOLS, key: ["inet_proto"] },
    { ...PLAIN, name: CLUSTER_IPS, key: [address] },
    { ...PLAIN, name: NODEPORT_IPS, key: [address] },
    { ...PLAIN, name: HAIRPIN_CONNECTIONS, key: [address, ...frontend] },
    { ...PLAIN, name: NO_ENDPOINTS, key: frontend, value: "verdict" },
    ...context.features.flatMap((part) => (isInTable(part, context) ? (part.specs?.(context) ?? []) : [])),
    { ...frontendMap("lists", context), name: LISTS, key: frontend, value: ["classid"] },
    { ...PLAIN, name: BALANCERS, key: ["classid"], value: "verdict" },
    {
      ...frontendMap("endpoints", context),
      name: ENDPOINTS,
      key: listEntry,
      value: [address, "inet_service"],
    },
    { ...PLAIN, name: AFFINITY_IDS, key: listEntry, value: ["classid"] },
    { ...PLAIN, name: AFFINITY_CHOOSERS, key: ["classid"], value: "verdict" },
    { ...PLAIN, name: AFFINITY_TIMEOUTS, key: ["classid"], value: "verdict" },
    {
      ...PLAIN,
      name: AFFINITY,
      key: ["classid", address],
      value: ["classid"],
      dynamic: true,
      size: affinityMapSize,
    },
  ];
}

/** The optional part of a table for source ranges. All others have the names of features. */
export const SOURCE_RANGES_PART = "sourceRanges";

/** The sets and maps of one family that exist while a Service has source ranges. */
export function sourceRangesSpecs(context: FamilyContext): SetSpec[] {
  const { family, features } = context;
  const address = addressType(family);
  const frontend: DataType[] = [address, "inet_proto", "inet_service"];
  return [
    { ...PLAIN, name: SOURCE_RANGES, key: [address, "classid", "integer"] },
    { ...PLAIN, name: SOURCE_RANGE_LISTS, key: frontend, value: ["classid"] },
    ...features.flatMap(({ besideSourceRanges }) => besideSourceRanges?.specs(context) ?? []),
  ];
}
