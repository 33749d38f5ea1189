import { alternatives } from "../base/text.ts";
import { SCHEDULERS, type Scheduler } from "../model/scheduler.ts";
import type { GivenConfiguration } from "./configuration.ts";
import { type ConfigWarning, ignoredWarning } from "./diagnostic.ts";

/** The equivalents of IPVS schedulers. kube-proxy configures `mh` to hash the source address and port. */
const SAME: Readonly<Record<string, Scheduler>> = {
  rr: "round-robin",
  wrr: "round-robin",
  sh: "source-hash",
  mh: "flow-hash",
};

/** The scheduler that is used for an IPVS scheduler. */
export interface TranslatedScheduler {
  readonly ipvs: string;
  readonly scheduler: Scheduler;
  /** False if the IPVS scheduler has no equivalent. */
  readonly isSame: boolean;
}

/** Returns the equivalent of an IPVS scheduler; undefined if there is none. */
export function sameScheduler(ipvs: string): Scheduler | undefined {
  return Object.hasOwn(SAME, ipvs) ? SAME[ipvs] : undefined;
}

/** kube-proxy's default. */
const DEFAULT_SCHEDULER = "rr";

/** Returns the scheduler of a configuration for kube-proxy's ipvs mode; undefined for other modes. */
export function ipvsScheduler({ mode, ipvs }: GivenConfiguration): TranslatedScheduler | undefined {
  if (mode !== "ipvs") return undefined;
  const given = ipvs?.scheduler || DEFAULT_SCHEDULER;
  const same = sameScheduler(given);
  return { ipvs: given, scheduler: same ?? "random", isSame: same !== undefined };
}

/** The names of the settings in messages: those of the file's fields, or of the flags. */
export interface IpvsSettingNames {
  readonly scheduler: string;
  /** The mode in which it has an effect. */
  readonly ipvsMode: string;
  /** The setting that decides instead. */
  readonly own: string;
}

const FIELDS: IpvsSettingNames = {
  scheduler: "ipvs.scheduler",
  ipvsMode: "mode ipvs",
  own: "nftProxy.scheduler",
};

/** Returns the warnings that an IPVS scheduler is not used as it was given. */
export function ipvsSchedulerWarnings(given: GivenConfiguration, names: IpvsSettingNames = FIELDS): ConfigWarning[] {
  const subject = names.scheduler;
  const text = given.ipvs?.scheduler ?? "";
  if (text === "") return [];
  if (given.mode !== "ipvs") {
    return [ignoredWarning(subject, `it counts with ${names.ipvsMode} only; ${names.own} is ours`)];
  }
  if (given.nftProxy?.scheduler) return [ignoredWarning(subject, `${names.own} decides`)];
  const { ipvs = "", scheduler, isSame } = ipvsScheduler(given) ?? {};
  return isSame
    ? []
    : [{ subject, message: `${subject}: ${ipvs} is replaced by ${scheduler}; there are ${alternatives(SCHEDULERS)}` }];
}
