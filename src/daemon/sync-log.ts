import type { Clock } from "../base/clock.ts";
import { evidenceOf, messageOf } from "../base/errors.ts";
import { FailureLog } from "../base/failure-log.ts";
import { FAMILY_NAMES, type Family } from "../base/family.ts";
import type { Logger } from "../base/logger.ts";
import { NamespaceLoggers } from "../base/namespace-loggers.ts";
import { listText, listTextOf } from "../base/text.ts";
import { namespaceOf } from "../model/ids.ts";
import { deltaSize } from "../nft/delta.ts";
import { frontendText } from "../ruleset/keys.ts";
import { type ConflictChanges, conflictSides, type LostFrontend } from "../ruleset/lost-frontends.ts";
import { type QuarantinedService, quarantinedText } from "../sync/quarantine-changes.ts";
import type { SyncFailure, SyncReport } from "../sync/sync-report.ts";
import { lostByService } from "./events/sync-events.ts";

/** Returns a subscriber that logs the results of syncs. */
export function syncLog(logger: Logger, clock: Clock) {
  const loggers = new NamespaceLoggers(clock, logger);
  const failures = new FailureLog({ logger, clock }, "sync", undefined, "error");
  let excluded: ReadonlyMap<Family, string> = new Map();

  const logSync = ({ kind, reason, durationMs, repaired, applied, deltas, unreadable }: SyncReport) => {
    const seconds = durationMs / 1000;
    if (repaired !== undefined) {
      const fields = { reason, seconds, found: repaired.text };
      loggers.of("").warn(fields, "another program changed the rules, repaired");
    } else if (kind === "full") {
      const fields = { reason, seconds, sent: applied.length, ...deltaSize(deltas), unreadable };
      logger.info(fields, "full sync");
    } else logger.debug({ ...deltaSize(deltas), seconds }, "synced");
  };

  const logExclusions = (families: ReadonlyMap<Family, string>) => {
    for (const [family, error] of families) {
      if (excluded.has(family)) continue;
      const fields = { family: FAMILY_NAMES[family], error };
      logger.error(fields, "family excluded, as the kernel refuses its tables; the other family is served");
    }
    for (const family of excluded.keys()) {
      if (!families.has(family)) logger.info({ family: FAMILY_NAMES[family] }, "family no longer excluded");
    }
    excluded = families;
  };

  const logPorts = (
    level: "error" | "warn" | "info",
    ports: readonly QuarantinedService[],
    textOf: (port: QuarantinedService) => string,
  ) => {
    for (const port of ports) {
      const make = () => [{ servicePort: quarantinedText(port) }, textOf(port)] as const;
      loggers.line(level, namespaceOf(port.service), make);
    }
  };

  const logConflicts = ({ begun, ended }: ConflictChanges) => {
    for (const [service, lost] of lostByService(begun))
      loggers.line("warn", namespaceOf(service), () => {
        const { losers, winners } = conflictSides(lost);
        const sides = { losers: listText(losers), winners: listText(winners) };
        return [
          { service, frontends: frontendsText(lost), ...sides },
          "conflict: other Services have addresses and ports of this one",
        ];
      });
    for (const [service, lost] of lostByService(ended)) {
      const make = () => [{ service, frontends: frontendsText(lost) }, "conflict ended"] as const;
      loggers.line("info", namespaceOf(service), make);
    }
  };

  return {
    synced(report: SyncReport): void {
      failures.end({}, "synced after failures");
      logSync(report);
      const { quarantineChange, featureChanges } = report;
      logPorts("error", quarantineChange.begun, ({ reason }) => `service port quarantined: ${reason}`);
      logPorts("info", quarantineChange.ended, () => "service port no longer quarantined");
      for (const { feature, begun, ended } of featureChanges) {
        logPorts("warn", begun, ({ reason }) => `served without ${feature.text}: ${reason}`);
        logPorts("info", ended, () => `served with ${feature.text} again`);
      }
      logExclusions(report.excludedFamilies);
      logConflicts(report.conflicts);
    },
    failed: ({ error }: SyncFailure) => failures.add(messageOf(error), evidenceOf(error)),
    cleanUpFailed: (error: unknown) =>
      logger.info({ error: messageOf(error) }, "cannot delete stale chains, retrying later"),
  };
}

function frontendsText(lost: readonly LostFrontend[]): string {
  return listTextOf(lost, ({ frontend }) => frontendText(frontend));
}
