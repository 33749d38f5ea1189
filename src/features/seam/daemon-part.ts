import type { Clock } from "../../base/clock.ts";
import type { Logger } from "../../base/logger.ts";
import type { Sample } from "../../base/sample.ts";
import type { FlowTable } from "../../kernel/conntrack.ts";
import type { StartFlowListener } from "../../kernel/flow-listener.ts";
import type { HostFiles } from "../../kernel/host.ts";
import type { Nft } from "../../kernel/nft.ts";
import type { TableReader } from "../../kernel/table-reader.ts";
import type { EjectedEndpoint } from "../../model/ejected-endpoint.ts";
import type { ServiceName } from "../../model/ids.ts";
import type { ObjectCache } from "../../model/object-cache.ts";
import type { ServicePort } from "../../model/service-port.ts";
import type { Ruleset } from "../../nft/ast/ruleset.ts";
import type { TableDelta } from "../../nft/delta.ts";
import type { NodeContext, Settings } from "../../ruleset/node-context.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";
import type { FrontendView } from "../../ruleset/service-view.ts";
import type { SeenRefusal } from "./refusals.ts";

/**
 * What a feature does in the daemon besides its rules, unless the daemon applies nothing. Nothing happens
 * before the first sync.
 */
export interface DaemonPart {
  /** Called after each successful sync. */
  readonly synced?: (sync: FinishedSync) => void;
  readonly stop?: () => void;
  /** By name. */
  readonly metrics?: Readonly<Record<string, FeatureMetric>>;
  /** A card of the status page; undefined for none. @param now milliseconds since 1970 */
  readonly card?: (now: number) => FeatureCard | undefined | Promise<FeatureCard | undefined>;
  /** What it has that has a limit, for the status page. */
  readonly fills?: () => readonly Fill[];
  /** Reads the refused connections that it records. @throws AppError as nft does */
  readonly refusals?: () => Promise<readonly SeenRefusal[]>;
  /** The endpoints that it ejected. */
  readonly ejected?: () => readonly EjectedEndpoint[];
  /** The connections that it counted, for the status page. At most one feature does. */
  readonly connections?: () => Promise<ConnectionLookup>;
}

/** The declaration of a metric. */
export interface FeatureMetric {
  /** The samples of a histogram are those of {@link HistogramCounts}. */
  readonly kind: "counter" | "gauge" | "histogram";
  readonly help: string;
  readonly labels?: readonly string[];
  /** Returns all series with their values, at each scrape. */
  readonly samples: () => readonly Sample[] | Promise<readonly Sample[]>;
}

/** What the daemon lends to features. */
export interface FeatureHost {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly nft: Nft;
  readonly tables: TableReader;
  readonly files: HostFiles;
  readonly flows: FlowTable;
  readonly listenToFlows: StartFlowListener;
  readonly cache: ObjectCache;
  readonly state: () => RulesetState;
  readonly nodeContext: () => NodeContext;
  readonly settings: Settings;
  /** What its part of the desired state shows: see `StatePart.shown`. */
  readonly shown: () => unknown;
  readonly requestSync: () => void;
  /** Changes our tables while no sync runs, given the desired ones; does nothing if a repair is due. */
  readonly betweenSyncs: (change: (tables: Ruleset) => Promise<void>) => Promise<void>;
  /** All addresses of the host, as they were last read. */
  readonly localAddresses: () => readonly string[];
  /** Records a warning about a Service, as an Event. */
  readonly warn: (service: ServiceName, event: FeatureEvent) => void;
}

/** An Event. */
export interface FeatureEvent {
  /** The cause as one word for scripts; kube-proxy's if it has one. */
  readonly reason: string;
  /** The action that caused it. */
  readonly action: string;
  /** The text for people. */
  readonly note: string;
  /**
   * Set if many nodes record the same: the text that is the same on all of them. With it, one Event for the
   * cluster is enough for its lifetime (an hour by default), instead of one from each of a thousand nodes.
   */
  readonly clusterKey?: string;
}

/** Finds the number of new connections since a map element was created; undefined if they are not counted. */
export interface ConnectionLookup {
  readonly toFrontend: (port: ServicePort, frontend: FrontendView) => number | undefined;
  readonly toEndpoint: (port: ServicePort, address: string, number: number) => number | undefined;
}

/** What features learn of a successful sync. */
export interface FinishedSync {
  /** The differences that were sent to the kernel. */
  readonly deltas: readonly TableDelta[];
  /** Set if it repaired changes by other programs. */
  readonly repaired: object | undefined;
  /** Services rendered since the last successful sync. */
  readonly rendered: ReadonlySet<ServiceName>;
  /** Changed Services whose rules are not complete in the kernel. */
  readonly waiting: ReadonlySet<ServiceName>;
  readonly nodeContext: NodeContext;
  /** When it started, milliseconds on the monotonic clock. */
  readonly startedMonotonic: number;
}

/** A card of the status page. */
export interface FeatureCard {
  readonly title: string;
  readonly tone: "good" | "idle" | "bad";
  /** In large letters. */
  readonly value: string;
  readonly lines: readonly string[];
  /** Further lines, of which the page shows the first ones. */
  readonly list: readonly string[];
}

/** Something that has a limit. */
export interface Fill {
  readonly what: string;
  /** Undefined until it is first read. */
  readonly used: number | undefined;
  readonly limit: number;
}
