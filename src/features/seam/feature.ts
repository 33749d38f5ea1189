import type { Format, Option } from "../../base/option.ts";
import type { ConntrackSettings, KernelSetting } from "../../kernel/sysctl.ts";
import type { Service, ServicePortSpec } from "../../model/service.ts";
import type { ServicePort } from "../../model/service-port.ts";
import type { Ruleset, Table } from "../../nft/ast/ruleset.ts";
import type { FamilyContext, RulesetPart, Settings } from "../../ruleset/node-context.ts";
import type { FrontendOutcome } from "../../ruleset/service-view.ts";
import type { FeatureCommand } from "./command.ts";
import type { DaemonPart, FeatureHost } from "./daemon-part.ts";
import type { RefusalReader } from "./refusals.ts";
import type { StatePart, StatePartHost } from "./state-part.ts";

/**
 * Something that kube-proxy does not have. Everything that exists for it alone is in its folder, and the
 * registry has one import and one entry for it. It is off unless `--features` or an option of its own enables
 * it.
 */
export interface Feature {
  /** As in `--features`. */
  readonly name: string;
  /** Whether the values of its options enable it; `--features` does so, too, if it has annotations. */
  readonly isEnabled?: (settings: Settings) => boolean;
  readonly annotations?: readonly ServiceAnnotation[];
  /** The annotations of EndpointSlices. */
  readonly sliceAnnotations?: readonly ObjectAnnotation[];
  /** Options that only this feature has, by name. Their values are JSON: the daemon sends them. */
  readonly options?: Readonly<Record<string, Option<unknown>>>;
  /** The formats of their fields in the schema, by name. */
  readonly formats?: Readonly<Record<string, Format>>;
  /** What its rules need of the node's own settings of conntrack, added to the values of its options. */
  readonly settingsOf?: (conntrack: ConntrackSettings) => Settings;
  readonly ruleset?: RulesetPart;
  readonly createState?: (host: StatePartHost) => StatePart;
  readonly createDaemonPart?: (host: FeatureHost) => DaemonPart;
  /** Only for the feature that records refused connections. */
  readonly refusals?: RefusalReader;
  /** How it was forbidden before `--features`. */
  readonly former?: FormerSetting;
  /** A fault of kernels that matters while the feature is enabled: `doctor` warns of it. */
  readonly kernelFault?: KernelFault;
  /** What its options and rules mean for a node that ran kube-proxy's mode ipvs. */
  readonly ipvs?: IpvsPart;
  /** What `apply` does after it has programmed the kernel with tables. @returns warnings */
  readonly afterApply?: (
    tables: Ruleset,
    host: Pick<FeatureHost, "nft" | "files" | "settings">,
  ) => Promise<readonly string[]>;
  readonly chainCheck?: ChainCheck;
  /** A command for this host, whether or not the feature is enabled. */
  readonly command?: FeatureCommand;
  /** Sysctls that it needs, which the daemon sets together with those of conntrack. */
  readonly kernelSettings?: (settings: Settings) => readonly KernelSetting[];
  readonly words?: FeatureWords;
}

/** A result of `doctor`. */
export interface Finding {
  readonly level: "ok" | "warning";
  /** The fact, at most one sentence, without a full stop. */
  readonly found: string;
  /** Its effect on Services; absent if there is nothing to add. */
  readonly means?: string | undefined;
  /** The action to take; absent when there is none. */
  readonly action?: string | undefined;
}

/** How `doctor` judges the chains of the host's software, while the feature works. */
export interface ChainCheck {
  /** What is not known if they cannot be listed. */
  readonly unlisted: string;
  readonly judge: (chains: readonly HostChain[]) => Finding;
}

/** A chain of any software. */
export interface HostChain {
  /** Family and name of its table, such as `ip kube-proxy`. */
  readonly table: string;
  readonly name: string;
  /** Absent for a chain that is not a base chain. */
  readonly base?: { readonly hook: string; readonly prio: number; readonly policy: string };
}

/** A setting that forbade a feature. It is refused now, with a hint. */
export interface FormerSetting {
  /** The field of the configuration. */
  readonly path: string;
  readonly flag: string;
  /** The value that forbade it; absent if the whole setting is gone. */
  readonly value?: unknown;
}

/** A fault of kernels before a release. */
export interface KernelFault {
  /** `7.1` */
  readonly before: string;
  /** What these kernels do: the predicate of a sentence. */
  readonly means: string;
  readonly action: string;
}

/** What differs from kube-proxy's mode ipvs. */
export interface IpvsPart {
  /** The name of the check of `doctor`: `migration-pings`. */
  readonly check: string;
  /**
   * What it finds out about a node to migrate.
   * @param of its context, undefined if the cluster's objects are unknown; the schedulers of its IPVS virtual
   * servers, one for each
   */
  readonly findings: (of: {
    readonly context: FamilyContext | undefined;
    readonly schedulers: readonly string[];
  }) => readonly Finding[];
}

/** An annotation of Services or EndpointSlices, and its row of deploy/reference.md in Markdown. */
export interface ObjectAnnotation {
  readonly name: string;
  /** Its values: `` `1s` to `1h` ``. */
  readonly values: string;
  /** What holds without it. */
  readonly absent: string;
  /** What an object with it costs a node. */
  readonly cost: string;
  readonly parse: (text: string, of: AnnotatedObject) => Parsed;
  /** What happens to an object with an invalid value; `it is ignored` if absent. */
  readonly consequence?: string;
}

/** An annotation of Services. */
export interface ServiceAnnotation extends ObjectAnnotation {
  /** The reason of the Event about an invalid value: `InvalidPortRanges`. */
  readonly event: string;
}

/**
 * What an annotation asks for: a part of the feature's own value, which all of its annotations add to. If it
 * is invalid, the reason: the predicate of a sentence.
 */
export type Parsed = { readonly value: object } | { readonly reason: string };

/** The object that has an annotation. */
export interface AnnotatedObject {
  /** Those of a Service. */
  readonly ports: readonly ServicePortSpec[];
  /** The names of further ports, which are invalid; undefined if some of these names are unknown. */
  readonly invalidPorts: readonly string[] | undefined;
  /** Takes the reason why a part of the annotation has no effect: the predicate of a sentence. */
  readonly warn: (reason: string) => void;
}

/** How commands and the status page speak of a feature: sentences in lower case, without a full stop. */
export interface FeatureWords {
  /** The topic of its notes; if absent, that of its budget, or its name. */
  readonly topic?: string;
  /** What `explain` notes about connections to a service port. */
  readonly note?: (port: ServicePort, of: NotedConnection) => string | undefined;
  /** What it notes about a connection that this node forwards to an endpoint. */
  readonly forwarded?: (context: FamilyContext, protocol: string) => string | undefined;
  /** What it notes about a service port if a daemon is asked. */
  readonly shownNotes?: (port: ServicePort, of: NotedState) => readonly string[];
  /**
   * What it notes about a TCP connection from the kernel's table if no daemon is asked.
   * @param ports the ports of the Service's endpoints; none if unknown
   */
  readonly tableNotes?: (table: Table, ports: ReadonlySet<number>) => readonly string[];
  /** What `check` warns of, for a valid Service. */
  readonly warnings?: (service: Service, context: FamilyContext) => readonly FeatureWarning[];
  /** What `check` warns of for each further address of a valid Service that is one of a Node. */
  readonly atNodeAddress?: (
    service: Service,
    context: FamilyContext,
  ) => Pick<FeatureWarning, "code" | "reason"> | undefined;
  /** What the status page shows beside the name of a Service. */
  readonly badge?: (service: Service, context: FamilyContext) => string | undefined;
  /** How `explain` speaks of a number that the feature draws, by the name of the method: see `DrawPart`. */
  readonly draws?: Readonly<Record<string, DrawWords>>;
  /** What `explain` says of an element that a rule found, by the name of the map; perhaps by its value. */
  readonly found?: Readonly<Record<string, string | ((value: string) => string)>>;
  /** What it says of a rule that translates the destination, by the name of the chain. */
  readonly translations?: Readonly<Record<string, string>>;
  /** Why a packet that no service port serves has its outcome; undefined if the feature does not matter. */
  readonly reason?: (packet: ExplainedPacket) => FeatureReason | undefined;
  /** What it says of a connection beyond the limit of an element, by the name of the set. */
  readonly beyond?: Readonly<Record<string, (most: number) => string>>;
  /**
   * Why a chain resets an established connection because of its endpoint, by the chain's name.
   * @param endpoint `the endpoint 10.244.1.5:8080`, or `its endpoint`
   * @param service the name of its service port, if known
   */
  readonly resets?: Readonly<Record<string, (endpoint: string, service: string | undefined) => string>>;
  /** The notice of `trace` about packets that it does not show while the feature works. */
  readonly untraced?: string;
  /** Why a service port refused a client that it serves otherwise: see `RulesetPart.refusal`. */
  readonly refused?: (port: ServicePort, client: string) => FeatureReason | undefined;
}

/** How `explain` speaks of a way to draw endpoints. */
export interface DrawWords {
  /** At a rule: `one of 251 slots at random`. */
  readonly step: (draw: ExplainedDraw) => string;
  /** In a note. @param service undefined if it is unknown */
  readonly note: (draw: ExplainedDraw, service: Service | undefined) => string;
}

/** A number that a chain draws. */
export interface ExplainedDraw {
  /** How many numbers it draws among. */
  readonly count: number;
  /** `3 endpoints`, or `the endpoints` if the list may have fewer than these numbers. */
  readonly endpoints: string;
  /** The number of this client, if it depends only on the client. */
  readonly own: number | undefined;
}

/** What a daemon shows of a feature. */
export interface NotedState {
  /** See {@link StatePart.shown}. */
  readonly shown: unknown;
  /** The daemon's time, milliseconds since 1970. */
  readonly now: number;
  /** `shop/cart port http (80/tcp)` */
  readonly portText: string;
}

/** The connection that a note is about. */
export interface NotedConnection {
  readonly context: FamilyContext;
  /** Whether the service port has an element in a set of the feature. */
  readonly hasElements: boolean;
  /** Whether a rule has such an effect on it: a kind of `Effect` in src/trace/outcome.ts. */
  readonly hasEffect: (kind: string) => boolean;
}

/** A packet that no service port serves, such as an echo request. */
export interface ExplainedPacket {
  /** The addresses. */
  readonly from: string;
  readonly to: string;
  /** 0 for an echo request. */
  readonly port: number;
  /** By nft's name. */
  readonly protocol: string;
  /** Whether it is answered. */
  readonly isServed: boolean;
  /** Whether its destination is an address of the node. */
  readonly isLocal: boolean;
  /** The context of its family; undefined if it is not programmed. */
  readonly context: FamilyContext | undefined;
  /** The Services that have its destination. */
  readonly services: readonly Service[];
  /** The outcomes of connections from outside to the ports that a Service serves there. */
  readonly outcomesOf: (service: Service) => readonly FrontendOutcome[];
  /** Why the ports that Services serve there, if any, do not serve its source. */
  readonly refusal: () => FeatureReason | undefined;
  /** Why a Service is served without the feature; undefined if it is not. */
  readonly without: (service: Service) => string | undefined;
}

/** Why a packet has its outcome, and what to do about it. */
export interface FeatureReason {
  /** A stable word for scripts; the name of the feature if absent. */
  readonly cause?: string;
  /** In lower case, without a full stop. */
  readonly message: string;
  /** Absent when there is nothing to do. */
  readonly action?: string;
  /** Shell commands for the action, in order; absent if it needs none. */
  readonly commands?: readonly string[];
}

/** A warning of `check` about an annotation. */
export interface FeatureWarning {
  readonly annotation: string;
  /** One of `DIAGNOSTIC_CODES`. */
  readonly code: string;
  /** The predicate of a sentence. */
  readonly reason: string;
}
