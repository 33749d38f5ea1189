import type { Flag } from "../../base/option.ts";
import type { ServiceName } from "../../model/ids.ts";
import type { ObjectCache } from "../../model/object-cache.ts";
import type { ServicePort } from "../../model/service-port.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";
import type { FeatureHost } from "./daemon-part.ts";
import type { RefusalEntry } from "./refusals.ts";

/**
 * A command of a feature, for this host. Its argument is a Service, one of its ports or an address; like
 * other commands it takes `--namespace`, `--from`, `--context` and `--output`.
 */
export interface FeatureCommand {
  readonly name: string;
  readonly summary: string;
  /** The formats of `--output`, the default first. */
  readonly formats: readonly [string, ...string[]];
  /** The flags that only it has. */
  readonly flags: readonly Flag[];
  /** The flags of other commands that it takes, by name, with their meaning for it. */
  readonly meanings?: Readonly<Record<string, string>>;
  /** Example arguments, each with its meaning. */
  readonly examples: readonly (readonly [args: string, does: string])[];
  /** @throws AppError for invalid arguments, or as the parts of the host do */
  readonly run: (host: CommandHost) => Promise<CommandOutput>;
}

/** What a command prints. */
export interface CommandOutput {
  /** As they come; control characters are replaced. The format json has an object in each line. */
  readonly lines: AsyncIterable<string>;
  /** For standard error: warnings and notes. */
  readonly notices: readonly string[];
}

/** What the program lends to commands of features. */
export interface CommandHost extends Pick<FeatureHost, "clock" | "files" | "flows" | "listenToFlows"> {
  readonly format: string;
  /** Whether a boolean flag is true. */
  readonly isSet: (flag: string) => boolean;
  /** The value of a flag; undefined without the flag. */
  readonly text: (flag: string) => string | undefined;
  /** What the arguments select: an address, service ports, or everything. */
  readonly subject: CommandSubject;
  /**
   * The objects of the last seconds, and their rules: the same until it is time to load them again, at most
   * every 2 s and for at most a twentieth of the time. Without a daemon, they are those of the start.
   */
  readonly objects: () => Promise<CommandObjects>;
  /**
   * The refusals that the kernel remembers, of the subject, then the new ones of each reading until `stop`
   * resolves. @throws AppError HOST if none are recorded
   */
  readonly refusals: (stop: Promise<unknown>) => AsyncIterable<readonly ExplainedRefusal[]>;
  /** Resolves with the signal that ends the command. Call it once. */
  readonly interrupted: () => Promise<void>;
}

/** What the arguments of a command select. */
export interface CommandSubject {
  /** An address in canonical form. */
  readonly address?: string;
  /** Whether a service port is meant; all are if absent. */
  readonly isMeant?: (port: ServicePort) => boolean;
}

/** The objects, with the rules made of them. */
export interface CommandObjects {
  readonly cache: ObjectCache;
  readonly state: RulesetState;
  /** The addresses of this host. */
  readonly localAddresses: ReadonlySet<string>;
}

/** The refused packets of some clients to a destination, with the cause. */
export interface ExplainedRefusal extends Pick<RefusalEntry, "address" | "port" | "protocol"> {
  /** Absent if no Service serves the destination. */
  readonly service?: ServiceName | undefined;
  /** The name of the port of `service`, "" for a nameless one; absent without it. */
  readonly servicePort?: string | undefined;
  /** The latest first. */
  readonly clients: readonly ExplainedClient[];
  /** A stable word. */
  readonly cause: string;
  /** Why they are refused. */
  readonly message: string;
}

/** A client whose packets were refused or dropped. */
export interface ExplainedClient {
  readonly address: string;
  /** The Pod's `namespace/name`, if an EndpointSlice names it; "" for other clients. */
  readonly pod: string;
  readonly packets: number;
  /** RFC 3339: the time of the last packet. */
  readonly lastAt: string;
}
