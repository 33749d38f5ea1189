import type { Family } from "../../base/family.ts";
import type { Node } from "../../model/node.ts";
import type { FamilyHealth, HealthSnapshot } from "./health.ts";

/** Remembers what {@link HealthSnapshot} is made of. Times are milliseconds since 1970. */
export class HealthTracker {
  readonly #families: Partial<Record<Family, FamilyHealth>> = {};
  #node: HealthSnapshot["node"];

  /** Serves `families`. From `startedAt` on, each waits for its first sync, because of `problem`. */
  constructor(families: readonly Family[], startedAt: number, problem = "") {
    for (const family of families) {
      this.#families[family] = { lastSynced: undefined, pendingSince: startedAt, problem };
    }
  }

  /** The cluster wants something that is not in the kernel yet, or the kernel was found changed. */
  queued(at: number): void {
    this.#update((health) => ({ ...health, pendingSince: health.pendingSince ?? at }));
  }

  /** The kernel has what was wanted when the sync began; `more` if something else has been wanted since then. */
  synced(at: number, more?: { readonly wantedSince: number }): void {
    this.#update(() => ({ lastSynced: at, pendingSince: more?.wantedSince, problem: "" }));
  }

  /** A sync did not succeed, or cannot begin; `problem` says why in words for an operator. */
  failed(at: number, problem: string): void {
    this.#update((health) => ({ ...health, pendingSince: health.pendingSince ?? at, problem }));
  }

  /** Our Node appeared or changed. */
  nodeChanged(node: Pick<Node, "deleting" | "taints">): void {
    this.#node = { deleting: node.deleting, taints: node.taints };
  }

  /** How things stand now. */
  snapshot(): HealthSnapshot {
    return { families: { ...this.#families }, node: this.#node };
  }

  #update(change: (health: FamilyHealth) => FamilyHealth): void {
    for (const [family, health] of Object.entries(this.#families)) {
      this.#families[family as Family] = change(health);
    }
  }
}
