import { MAX_CONNECTIONS_ANNOTATION, NEW_CONNECTIONS_ANNOTATION } from "./client-limits.ts";
import { DRAIN_TIMEOUT_ANNOTATION, ON_REMOVED_ANNOTATION } from "./connection-life.ts";
import { CONNECTION_TIMEOUTS_ANNOTATION } from "./connection-timeouts.ts";
import { PASSIVE_HEALTH_ANNOTATION } from "./passive-health.ts";
import { SCHEDULER_ANNOTATION } from "./scheduler.ts";

/** The annotation of a Service that gives its ports ranges: `rtp=10000-10999,sip=5070-5079`. */
export const PORT_RANGES_ANNOTATION = "nft-proxy.io/port-ranges";

/** All annotations of Services. */
export const SERVICE_ANNOTATIONS = [
  SCHEDULER_ANNOTATION,
  PORT_RANGES_ANNOTATION,
  PASSIVE_HEALTH_ANNOTATION,
  MAX_CONNECTIONS_ANNOTATION,
  NEW_CONNECTIONS_ANNOTATION,
  CONNECTION_TIMEOUTS_ANNOTATION,
  ON_REMOVED_ANNOTATION,
  DRAIN_TIMEOUT_ANNOTATION,
] as const;

/** One of {@link SERVICE_ANNOTATIONS}. */
export type ServiceAnnotation = (typeof SERVICE_ANNOTATIONS)[number];
