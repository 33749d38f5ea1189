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
import type { ConflictChanges, LostFrontend } from "../ruleset/lost-frontends.ts";
import { type QuarantinedService, quarantinedText } from "../sync/quarantine-changes.ts";
import type { SyncFailure, SyncReport, SyncSubscriber } from "../sync/sync-report.ts";
import { lostByService } from "./events/sync-events.ts";

/** Logs the results of syncs. */
export class SyncLog implements SyncSubscriber {
  readonly #logger: Logger;
  readonly #loggers: NamespaceLoggers;
  readonly #failures: FailureLog;
  #excluded: ReadonlyMap<Family, string> = new Map();

  constructor(logger: Logger, clock: Clock) {
    this.#logger = logger;
    this.#loggers = new NamespaceLoggers(clock, logger);
    this.#failures = new FailureLog(
      { logger, clock },
      "sync failed, retrying",
      "sync succeeded after failures",
      "error",
    );
  }

  synced(report: SyncReport): void {
    this.#failures.end();
    this.#logSync(report);
    const { quarantineChange, featureChanges } = report;
    this.#logPorts("error", quarantineChange.begun, ({ reason }) => `service port quarantined: ${reason}`);
    this.#logPorts("info", quarantineChange.ended, () => "service port no longer quarantined");
    for (const { feature, begun, ended } of featureChanges) {
      this.#logPorts("warn", begun, ({ reason }) => `served without ${feature.text}: ${reason}`);
      this.#logPorts("info", ended, () => `served with ${feature.text} again`);
    }
    this.#exclusions(report.excludedFamilies);
    this.#logConflicts(report.conflicts);
  }

  failed({ error }: SyncFailure): void {
    this.#failures.add(messageOf(error), evidenceOf(error));
  }

  cleanUpFailed(error: unknown): void {
    this.#logger.info({ error: messageOf(error) }, "cannot delete stale chains, retrying later");
  }

  #logSync({ kind, reason, durationMs, repaired, applied, deltas, unreadable }: SyncReport): void {
    const seconds = durationMs / 1000;
    if (repaired !== undefined) {
      const fields = { reason, seconds, found: repaired.text };
      this.#loggers.of("").warn(fields, "another program changed the rules, repaired");
    } else if (kind === "full") {
      const fields = { reason, seconds, sent: applied.length, ...deltaSize(deltas), unreadable };
      this.#logger.info(fields, "full sync");
    } else this.#logger.debug({ ...deltaSize(deltas), seconds }, "synced");
  }

  #exclusions(families: ReadonlyMap<Family, string>): void {
    for (const [family, error] of families) {
      if (this.#excluded.has(family)) continue;
      const fields = { family: FAMILY_NAMES[family], error };
      this.#logger.error(
        fields,
        "family excluded, as the kernel refuses its tables; the other family is served",
      );
    }
    for (const family of this.#excluded.keys()) {
      if (!families.has(family))
        this.#logger.info({ family: FAMILY_NAMES[family] }, "family no longer excluded");
    }
    this.#excluded = families;
  }

  #logPorts(
    level: "error" | "warn" | "info",
    ports: readonly QuarantinedService[],
    textOf: (port: QuarantinedService) => string,
  ): void {
    for (const port of ports) {
      const make = () => [{ servicePort: quarantinedText(port) }, textOf(port)] as const;
      this.#loggers.line(level, namespaceOf(port.service), make);
    }
  }

  #logConflicts({ begun, ended }: ConflictChanges): void {
    for (const [service, lost] of lostByService(begun))
      this.#loggers.line("warn", namespaceOf(service), () => {
        const winners = listText([...new Set(lost.map(({ winner }) => winner.service.name))]);
        const fields = { service, frontends: frontendsText(lost), winners };
        return [fields, "conflict: other Services have addresses and ports of this one"];
      });
    for (const [service, lost] of lostByService(ended)) {
      const make = () => [{ service, frontends: frontendsText(lost) }, "conflict ended"] as const;
      this.#loggers.line("info", namespaceOf(service), make);
    }
  }
}

function frontendsText(lost: readonly LostFrontend[]): string {
  return listTextOf(lost, ({ frontend }) => frontendText(frontend));
}
