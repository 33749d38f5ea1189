import type { Clock } from "../../base/clock.ts";
import type { FailureLog } from "../../base/failure-log.ts";
import type { AttributedConnection, ConnectionAttribution } from "../../conntrack/connection-attribution.ts";
import type { Flow, FlowChange, FlowState, FlowTable } from "../../kernel/conntrack.ts";
import { loggedReading } from "../../kernel/logged-reading.ts";
import type { ServicePort } from "../../model/service-port.ts";

/**
 * How a connection ended: by both ends; by a reset of either; because the endpoint refused it; because
 * nothing answered; or because the kernel forgot it, after a time without packets or as it was deleted.
 */
export type End = "closed" | "reset" | "refused-by-endpoint" | "unanswered" | "expired";

/** A connection to a Service, at its beginning, at its end, or while it is open. */
export type Observation = Readonly<ReturnType<typeof observation>>;

/**
 * Returns the observation of a flow. Its fields are always the same, because there are many.
 * @param at milliseconds since 1970
 */
export function observation(
  event: "open" | "began" | End,
  { port, endpoint, condition }: AttributedConnection,
  flow: Flow,
  at: number,
) {
  const { startedAt, stoppedAt = at } = flow;
  const isKnown = event !== "began" && startedAt !== undefined;
  /** Undefined at the beginning, and if the kernel does not know when that was. */
  const durationMs = isKnown ? Math.max(stoppedAt - startedAt, 0) : undefined;
  return { event, port, endpoint, condition, flow, at, durationMs };
}

/**
 * The states that tell the end of a TCP connection, and how it ended. The kernel deletes it up to three
 * minutes later.
 */
export const END_STATES: ReadonlyMap<string, End> = new Map([
  ["time_wait", "closed"],
  ["close", "reset"],
]);

/** `unreplied`, `replied` and `assured`: before Linux 5.11, deletions of TCP connections have no state. */
const OPENING: ReadonlySet<string> = new Set(["syn_sent", "syn_sent2", "syn_recv", "unreplied"]);
const UNKNOWN: ReadonlySet<string> = new Set(["replied", "assured"]);
const SCTP_CLOSED: ReadonlySet<string> = new Set(["closed", "shutdown_ack_sent"]);

/** Whether a change of a flow in a state may begin or end a connection: see {@link connectionEnd}. */
export function mayMatter(change: FlowChange, { state, isAnswered }: FlowState): boolean {
  if (change === "changed") return END_STATES.has(state);
  return change === "created" || !(state === "time_wait" || (state === "close" && isAnswered));
}

/** How a change of a flow ends its connection; undefined if it does not, or if an earlier one did. */
export function connectionEnd(
  change: FlowChange,
  { protocol, state, isAnswered }: Pick<Flow, "protocol" | "state" | "isAnswered">,
): End | undefined {
  if (change === "created") return undefined;
  if (protocol === "tcp")
    return change === "changed" ? END_STATES.get(state) : endByDeletion(state, isAnswered);
  if (change === "changed") return undefined;
  if (!isAnswered) return "unanswered";
  return SCTP_CLOSED.has(state) ? "closed" : "expired";
}

function endByDeletion(state: string, isAnswered: boolean): End | undefined {
  // An unknown state is nearly always one whose end was told.
  if (state === "time_wait" || UNKNOWN.has(state)) return undefined;
  // The kernel deletes a connection at once if the first answer is a reset, without telling of the state.
  if (state === "close") return isAnswered ? undefined : "refused-by-endpoint";
  return OPENING.has(state) ? "unanswered" : "expired";
}

/** Time in which ended connections gather for a request. Milliseconds. */
const GATHERING = 20;

/** Maximum number of ended connections that wait for their figures. The others are told without. */
const MOST_WAITING = 2000;

/** Number of closed connections after which an earlier one may be forgotten. */
const REMEMBERED = 4096;

/** What a {@link ConnectionObserver} needs. */
export interface ObserverParts {
  readonly clock: Pick<Clock, "now" | "after">;
  readonly table: Pick<FlowTable, "current">;
  /** Learns why figures could not be read, and that they can be read again. */
  readonly failures: Pick<FailureLog, "add" | "end">;
  /** By the current objects. */
  readonly attribute: ConnectionAttribution;
  readonly isWanted: (port: ServicePort, flow: Flow) => boolean;
  /** Whether the kernel counts bytes or knows times, so that it is worth asking. */
  readonly hasFigures: () => boolean;
  readonly take: (observation: Observation) => void;
}

/**
 * Turns changes of flows into beginnings and ends of connections to Services. Its memory does not grow with
 * the connections: what it tells follows from the change alone, and the figures of an end from the kernel.
 */
export class ConnectionObserver {
  /** Flows that began and belong to no Service. */
  others = 0;
  /**
   * Connections without figures: too many others waited for theirs, the kernel forgot them first, or they
   * could not be read.
   */
  withoutFigures = 0;
  readonly #parts: ObserverParts;
  readonly #waiting: Observation[] = [];
  #reading: Promise<void> | undefined;
  /** The latest closed connections: a reset after the last packet does not end them again. */
  #told: Set<number> = new Set();
  #toldBefore: ReadonlySet<number> = new Set();

  constructor(parts: ObserverParts) {
    this.#parts = parts;
  }

  /** Takes a change that the kernel reported. */
  see(change: FlowChange, flow: Flow): void {
    const { clock, attribute, isWanted, take, hasFigures } = this.#parts;
    const end = connectionEnd(change, flow);
    if (change !== "created" && end === undefined) return;
    const attributed = attribute(flow);
    if (attributed === undefined) {
      if (change === "created") this.others += 1;
      return;
    }
    if (!isWanted(attributed.port, flow)) return;
    const observed = observation(end ?? "began", attributed, flow, clock.now());
    if (change !== "changed") take(observed);
    else if (!this.#wasTold(flow.id)) {
      if (hasFigures()) this.#ask(observed);
      else take(observed);
    }
  }

  /** Resolves when every end so far has been told. */
  async finished(): Promise<void> {
    await this.#reading;
  }

  #wasTold(id: number): boolean {
    if (this.#told.has(id) || this.#toldBefore.has(id)) return true;
    this.#told.add(id);
    if (this.#told.size < REMEMBERED) return false;
    this.#toldBefore = this.#told;
    this.#told = new Set();
    return false;
  }

  #ask(ended: Observation): void {
    if (this.#waiting.length >= MOST_WAITING) {
      this.withoutFigures += 1;
      this.#parts.take(ended);
      return;
    }
    this.#waiting.push(ended);
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
    });
  }

  async #read(): Promise<void> {
    const { clock, table, failures, take } = this.#parts;
    while (this.#waiting.length > 0) {
      await new Promise<void>((resume) => clock.after(GATHERING, resume));
      const some = this.#waiting.splice(0, this.#waiting.length);
      const byId = new Map<number, Flow>();
      await loggedReading(failures, async () => {
        for (const flow of await table.current(some.map((ended) => ended.flow))) byId.set(flow.id, flow);
      });
      for (const ended of some) {
        const flow = byId.get(ended.flow.id);
        if (flow === undefined) this.withoutFigures += 1;
        take(flow === undefined ? ended : observation(ended.event, ended, flow, ended.at));
      }
    }
  }
}
