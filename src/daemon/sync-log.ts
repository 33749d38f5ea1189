import type { Clock } from "../base/clock.ts";
import { AppError, messageOf } from "../base/errors.ts";
import { FailureLog, LogLimit } from "../base/failure-log.ts";
import { FAMILY_NAMES, type Family } from "../base/family.ts";
import type { Logger } from "../base/logger.ts";
import { deltaSize } from "../nft/delta.ts";
import { frontendText } from "../ruleset/keys.ts";
import { type DriftSummary, driftSummary } from "../sync/drift-summary.ts";
import type { Quarantine, SyncFailure, SyncReport, SyncSubscriber } from "../sync/sync-report.ts";
import { quarantinedText, quarantineWatch } from "./events/quarantine-watch.ts";
import { conflictWatch } from "./events/sync-events.ts";

/** Logs the results of syncs. */
export class SyncLog implements SyncSubscriber {
  readonly #logger: Logger;
  readonly #newlyLost = conflictWatch();
  readonly #repairs = new LogLimit();
  readonly #failures: FailureLog;
  readonly #changeOf = quarantineWatch();
  #excluded: ReadonlyMap<Family, string> = new Map();

  constructor(logger: Logger, clock: Clock) {
    this.#logger = logger;
    this.#failures = new FailureLog(logger, clock, "sync failed, retrying", "sync succeeded after failures", "error");
  }

  synced(report: SyncReport): void {
    this.#failures.end();
    const seconds = (report.endedAt - report.startedAt) / 1000;
    const drift = driftSummary(report);
    if (drift !== undefined) this.#repaired(report, drift, seconds);
    else if (report.kind === "full") this.#fullSync(report, seconds);
    else this.#logger.debug({ ...deltaSize(report.deltas), seconds }, "synced");
    this.#logQuarantine(report.quarantined);
    this.#exclusions(report.excludedFamilies);
    for (const { frontend, winner, loser } of this.#newlyLost(report.state.conflicts())) {
      const fields = { frontend: frontendText(frontend), winner: winner.name, loser: loser.name };
      this.#logger.warn(fields, "conflict: another Service has this address and port");
    }
  }

  failed({ error }: SyncFailure): void {
    const fields = error instanceof AppError ? { ...error.evidence, hint: error.hint } : {};
    this.#failures.add(messageOf(error), fields);
  }

  cleanUpFailed(error: unknown): void {
    this.#logger.info({ error: messageOf(error) }, "cannot delete stale chains, retrying later");
  }

  #fullSync({ reason, applied, deltas, unreadable }: SyncReport, seconds: number): void {
    this.#logger.info({ reason, seconds, sent: applied.length, ...deltaSize(deltas), unreadable }, "full sync");
  }

  #repaired({ reason, endedAt }: SyncReport, { text: found }: DriftSummary, seconds: number): void {
    const limit = this.#repairs.fields(endedAt);
    if (limit === undefined) return;
    this.#logger.warn({ reason, seconds, found, ...limit }, "rules changed by someone else, repaired");
  }

  #exclusions(families: ReadonlyMap<Family, string>): void {
    for (const [family, error] of families) {
      if (this.#excluded.has(family)) continue;
      const fields = { family: FAMILY_NAMES[family], error };
      this.#logger.error(fields, "family excluded: the kernel refuses its tables; the other family works");
    }
    for (const family of this.#excluded.keys()) {
      if (!families.has(family)) this.#logger.info({ family: FAMILY_NAMES[family] }, "family no longer excluded");
    }
    this.#excluded = families;
  }

  #logQuarantine(quarantined: Quarantine): void {
    const { begun, ended } = this.#changeOf(quarantined);
    for (const each of begun) {
      this.#logger.error({ servicePort: quarantinedText(each) }, `service port quarantined: ${each.reason}`);
    }
    for (const each of ended) {
      this.#logger.info({ servicePort: quarantinedText(each) }, "service port no longer quarantined");
    }
  }
}
