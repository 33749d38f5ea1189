import { type Document, type Field, setting, text } from "../../base/option.ts";
import { alternatives, counted } from "../../base/text.ts";
import type { IpvsPart } from "../seam/feature.ts";
import { defaultScheduler, SCHEDULER_ANNOTATION, SCHEDULERS, type Scheduler } from "./scheduler.ts";

/** The settings of a configuration that decide the scheduler. */
interface SchedulerSettings {
  readonly mode?: string | null;
  readonly ipvs?: { readonly scheduler?: string | null } | null;
  readonly nftProxy?: { readonly scheduler?: string | null } | null;
}

/** The equivalents of IPVS schedulers. kube-proxy configures `mh` to hash the source address and port. */
const SAME: ReadonlyMap<string, Scheduler> = new Map([
  ["rr", "round-robin"],
  ["wrr", "round-robin"],
  ["sh", "source-hash"],
  ["mh", "flow-hash"],
]);

/** kube-proxy's default. */
const DEFAULT = "rr";

/**
 * Returns the scheduler that a configuration for kube-proxy's ipvs mode selects; `random` if it has no
 * equivalent.
 */
export function presetScheduler({ mode, ipvs }: SchedulerSettings): Scheduler {
  return (mode === "ipvs" ? SAME.get(ipvs?.scheduler || DEFAULT) : undefined) ?? "random";
}

/** The field of kube-proxy's ipvs mode that decides the default of the scheduler. */
export const IPVS_FIELDS: readonly Field[] = text({
  path: "ipvs.scheduler",
  preset: undefined,
  flag: setting(
    "ipvs-scheduler",
    "With --proxy-mode=ipvs, the default scheduler: rr, wrr, sh and mh have an equivalent, others are replaced",
  ),
  note: "with mode ipvs: rr, wrr, sh and mh have an equivalent, others are replaced with a warning",
  warning,
}).fields;

function warning(document: Document, subject: string): string | undefined {
  const given: SchedulerSettings = document;
  const ipvs = given.ipvs?.scheduler;
  if (!ipvs) return undefined;
  const [mode, own] = subject.startsWith("--")
    ? ["--proxy-mode=ipvs", "--scheduler"]
    : ["mode ipvs", "nftProxy.scheduler"];
  if (given.mode !== "ipvs")
    return `${subject} is ignored: it has an effect with ${mode} only; ${own} has one in every mode`;
  if (given.nftProxy?.scheduler) return `${subject} is ignored: ${own} decides`;
  if (SAME.has(ipvs)) return undefined;
  return `${subject}: ${ipvs} is replaced by ${presetScheduler(given)}; there are ${alternatives(SCHEDULERS)}`;
}

export const ipvsPart: IpvsPart = {
  check: "migration-scheduler",
  findings: ({ context, schedulers }) =>
    [...new Set(schedulers)].sort().map((ipvs) => {
      const count = schedulers.filter((other) => other === ipvs).length;
      const found = `${counted(count, "IPVS virtual server")} with scheduler ${ipvs}`;
      const [same, configured] = [SAME.get(ipvs), context && defaultScheduler(context)];
      if (same !== undefined && same === configured) return { level: "ok", found: `${found}: ${same} here` };
      const means = `connections will be balanced by ${configured ?? "random, unless configured otherwise"}`;
      const action =
        same === undefined
          ? `nft-proxy has no equivalent of ${ipvs}; choose ${alternatives(SCHEDULERS)} with --scheduler or the annotation ${SCHEDULER_ANNOTATION}`
          : `set nftProxy.scheduler (--scheduler) to ${same}, or the annotation ${SCHEDULER_ANNOTATION} on the Services that need it`;
      return { level: "warning", found, means, action };
    }),
};
