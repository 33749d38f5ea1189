import type { Clock } from "../base/clock.ts";
import { evidenceOf, messageOf } from "../base/errors.ts";
import { FailureLog, LogLimit } from "../base/failure-log.ts";
import { FAMILY_NAMES, type Family } from "../base/family.ts";
import type { LogFields, Logger } from "../base/logger.ts";
import { counted, listText, listTextOf } from "../base/text.ts";
import type { ServiceName } from "../model/ids.ts";
import { deltaSize } from "../nft/delta.ts";
import { frontendText } from "../ruleset/keys.ts";
import type { ConflictChanges, LostFrontend } from "../ruleset/lost-frontends.ts";
import {
  type QuarantineChange,
  type QuarantinedService,
  quarantinedText,
} from "../sync/quarantine-changes.ts";
import type { DriftSummary, SyncFailure, SyncReport, SyncSubscriber } from "../sync/sync-report.ts";
import { lostByService } from "./events/sync-events.ts";
import { ServiceLines } from "./service-lines.ts";

/** Logs the results of syncs. */
export class SyncLog implements SyncSubscriber {
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #repairs = new LogLimit();
  readonly #failures: FailureLog;
  /** By what they begin with if they count Services, so that each count is of one kind. */
  readonly #lines = new Map<string, ServiceLines>();
  #excluded: ReadonlyMap<Family, string> = new Map();

  constructor(logger: Logger, clock: Clock) {
    this.#logger = logger;
    this.#clock = clock;
    this.#failures = new FailureLog(
      { logger, clock },
      "sync failed, retrying",
      "sync succeeded after failures",
      "error",
    );
  }

  synced(report: SyncReport): void {
    this.#failures.end();
    const seconds = report.durationMs / 1000;
    if (report.repaired !== undefined) this.#repaired(report, report.repaired, seconds);
    else if (report.kind === "full") this.#fullSync(report, seconds);
    else this.#logger.debug({ ...deltaSize(report.deltas), seconds }, "synced");
    this.#logQuarantine(report.quarantineChange);
    for (const change of report.featureChanges) this.#logReduced(change);
    this.#exclusions(report.excludedFamilies);
    this.#logConflicts(report.conflicts);
  }

  failed({ error }: SyncFailure): void {
    this.#failures.add(messageOf(error), evidenceOf(error));
  }

  cleanUpFailed(error: unknown): void {
    this.#logger.info({ error: messageOf(error) }, "cannot delete stale chains, retrying later");
  }

  #fullSync({ reason, applied, deltas, unreadable }: SyncReport, seconds: number): void {
    this.#logger.info(
      { reason, seconds, sent: applied.length, ...deltaSize(deltas), unreadable },
      "full sync",
    );
  }

  #repaired({ reason }: SyncReport, { text: found }: DriftSummary, seconds: number): void {
    const limit = this.#repairs.fields(this.#clock.monotonic());
    if (limit === undefined) return;
    this.#logger.warn({ reason, seconds, found, ...limit }, "another program changed the rules, repaired");
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

  #logQuarantine({ begun, ended }: QuarantineChange): void {
    const quarantined = ({ reason }: QuarantinedService) => `service port quarantined: ${reason}`;
    this.#logPorts("error", begun, quarantined, "service ports quarantined of");
    const released = () => "service port no longer quarantined";
    this.#logPorts("info", ended, released, "no longer quarantined:");
  }

  #logReduced({ feature, begun, ended }: SyncReport["featureChanges"][number]): void {
    const without = `served without ${feature.text}:`;
    this.#logPorts("warn", begun, ({ reason }) => `${without} ${reason}`, without);
    const again = `served with ${feature.text} again`;
    this.#logPorts("info", ended, () => again, `${again}:`);
  }

  /** @param others begins the line with the number of further Services */
  #logPorts(
    level: "error" | "warn" | "info",
    ports: readonly QuarantinedService[],
    textOf: (port: QuarantinedService) => string,
    others: string,
  ): void {
    this.#linesOf(others).log(
      ports,
      ({ service }) => service,
      (port) => this.#logger[level]({ servicePort: quarantinedText(port) }, textOf(port)),
      (count) => this.#logger[level]({ others: count }, `${others} ${furtherServices(count)}`),
    );
  }

  #linesOf(others: string): ServiceLines {
    const lines = this.#lines.get(others) ?? new ServiceLines(this.#clock);
    this.#lines.set(others, lines);
    return lines;
  }

  #logConflicts({ begun, ended }: ConflictChanges): void {
    const serviceOf = ([service]: readonly [ServiceName, readonly LostFrontend[]]) => service;
    this.#linesOf("conflicts of").log(
      lostByService(begun),
      serviceOf,
      ([service, lost]) => this.#logger.warn(conflictFields(service, lost), conflictText(lost)),
      (count) => this.#logger.warn({ others: count }, `conflicts of ${furtherServices(count)}`),
    );
    this.#linesOf("conflicts ended of").log(
      lostByService(ended),
      serviceOf,
      ([service, lost]) => this.#logger.info({ service, frontends: frontendsText(lost) }, "conflict ended"),
      (count) => this.#logger.info({ others: count }, `conflicts ended of ${furtherServices(count)}`),
    );
  }
}

function furtherServices(count: number): string {
  return counted(count, "further Service");
}

function conflictFields(service: ServiceName, lost: readonly LostFrontend[]): LogFields {
  const [first] = lost;
  if (lost.length === 1 && first !== undefined) {
    return { frontend: frontendText(first.frontend), winner: first.winner.name, loser: first.loser.name };
  }
  const winners = listText([...new Set(lost.map(({ winner }) => winner.service.name))]);
  return { service, frontends: frontendsText(lost), winners };
}

function conflictText({ length }: readonly LostFrontend[]): string {
  if (length === 1) return "conflict: another Service has this address and port";
  return `conflict: other Services have ${length} addresses and ports of this one`;
}

function frontendsText(lost: readonly LostFrontend[]): string {
  return listTextOf(lost, ({ frontend }) => frontendText(frontend));
}
