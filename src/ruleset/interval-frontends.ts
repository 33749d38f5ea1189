import type { ServicePort } from "../model/service-port.ts";
import type { FrontendRules } from "./frontend-rules.ts";
import type { LostFrontend } from "./lost-frontends.ts";

/** Ports from the first to the last, inclusive: 1..65535. */
export interface PortInterval {
  readonly first: number;
  readonly last: number;
}

/** What a service port wants. */
export interface WantedIntervals {
  readonly port: ServicePort;
  readonly intervals: readonly FrontendRules[];
  readonly lists: { readonly isSticky: boolean };
}

/** A piece that is added (no `before`), deleted (no `after`) or has other rules. */
export interface PieceChange {
  readonly before: FrontendRules | undefined;
  readonly after: FrontendRules | undefined;
}

/** The changes after ports were divided again. */
export interface IntervalChanges {
  /** Added pieces may overlap deleted ones. */
  readonly pieces: readonly PieceChange[];
  /** The explicit frontends at addresses that got intervals. */
  readonly addedPorts: readonly string[];
  /** The explicit frontends at addresses that no longer have intervals. */
  readonly deletedPorts: readonly string[];
}

/**
 * The owners of ports within intervals. A piece is a part of an interval that its service port has alone; the
 * key of its rules has the piece's ports. Pieces do not overlap, as the kernel refuses overlaps.
 */
export interface DividedIntervals {
  /** How many intervals of service ports changed since ports were last divided. */
  readonly changed: number;
  /** Records that an explicit frontend was added or deleted. @returns whether its address has intervals */
  setPort(frontend: string, isThere: boolean): boolean;
  /** Replaces the intervals of a service port. */
  replace(before: WantedIntervals | undefined, after: WantedIntervals | undefined): void;
  /** Divides the ports of addresses that changed. */
  update(): IntervalChanges;
  /** The piece with a key. */
  piece(key: string): FrontendRules | undefined;
  /** The piece that has the port of a frontend, given by its key. */
  pieceAt(frontend: string): FrontendRules | undefined;
  pieces(): Iterable<FrontendRules>;
  /** The pieces that the service port of an interval has of it. */
  piecesOf(interval: FrontendRules): readonly FrontendRules[];
  /** The ports that several service ports want. */
  conflicts(): LostFrontend[];
  /** The service ports that want ports of an interval, given by its key, without having them. */
  losersOf(interval: string): readonly ServicePort[];
}
