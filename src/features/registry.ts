import { clientLimits } from "./client-limits/feature.ts";
import { connectionLife } from "./connection-life/feature.ts";
import { connectionTimeouts } from "./connection-timeouts/feature.ts";
import { echoReplies } from "./echo-replies/feature.ts";
import { fastPath } from "./fast-path/feature.ts";
import { observe } from "./observe/feature.ts";
import { passiveHealthChecks } from "./passive-health-checks/feature.ts";
import { portRanges } from "./port-ranges/feature.ts";
import { refusalRecord } from "./refusal-record/feature.ts";
import { schedulers } from "./schedulers/feature.ts";
import type { Feature } from "./seam/feature.ts";
import { serviceCounters } from "./service-counters/feature.ts";

/** All features: nothing else names one of them. */
export const FEATURES: readonly Feature[] = [
  clientLimits,
  connectionLife,
  connectionTimeouts,
  echoReplies,
  fastPath,
  observe,
  passiveHealthChecks,
  portRanges,
  refusalRecord,
  schedulers,
  serviceCounters,
];
