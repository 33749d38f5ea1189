import { FAMILIES, type Family } from "../base/family.ts";
import type { ProxyOptions } from "../config/options.ts";
import { FEATURES } from "../features/registry.ts";
import { isEnabled } from "../features/selection.ts";
import { type HostAddresses, hostAddresses } from "../kernel/addresses.ts";
import { type HostFiles, hostFamilies } from "../kernel/host.ts";
import type { ServerAddress } from "../kube/client/server-addresses.ts";
import { familyOf, isUnspecified } from "../model/ip.ts";
import type { ObjectCache } from "../model/object-cache.ts";
import { frontendKey } from "../ruleset/keys.ts";
import { MOST_STICKY_PORTS } from "../ruleset/list-ids.ts";
import type { LocalTraffic, NodeContext } from "../ruleset/node-context.ts";
import { nodePortAddressesOf } from "./node-port-addresses.ts";
import type { SupportedOptions } from "./supported-options.ts";

const LONGEST_INTERFACE_NAME = 15;

/** The properties of the host that rules depend on. */
export interface HostView extends HostAddresses {
  /** The families that the kernel supports. */
  readonly families: readonly Family[];
}

/**
 * Everything that rules depend on besides Services and EndpointSlices, for each family of the host.
 * @param apiServers those that the daemon connects to; none if the objects come from files
 */
export function nodeContextOf(
  options: SupportedOptions,
  cache: ObjectCache,
  host: HostView,
  apiServers: readonly ServerAddress[] = [],
): NodeContext {
  const { node } = cache;
  const enabled = FEATURES.filter((feature) => isEnabled(feature, options));
  const features = enabled.flatMap(({ ruleset }) => ruleset ?? []);
  const ofConntrack = enabled.map(({ settingsOf }) => settingsOf?.(options.conntrack));
  return FAMILIES.filter((family) => host.families.includes(family)).map((family) => {
    const nodeAddress = primaryAddress(options, node.addresses[family], family);
    return {
      family,
      place: { name: node.name, zone: node.zone },
      nodeAddress,
      localTraffic: localTraffic(options, node.podCIDRs[family], family),
      masqueradeAll: options.masqueradeAll,
      masqueradeMark: 2 ** options.masqueradeBit,
      nodePorts: nodePortAddressesOf(options, nodeAddress, node, family, host),
      loopbackNodePorts: options.nodePortAddresses.localhost[family],
      serviceCIDRs: cache.serviceCIDRs().flatMap(({ cidrs }) => cidrs[family]),
      apiServers: serverKeys(apiServers, family),
      affinityMapSize: options.affinityMapSize,
      maxAffinitySeconds: Math.floor(options.maxAffinityTimeoutMs / 1000),
      maxServiceElements: options.maxServiceElements,
      maxElements: options.maxElements,
      maxNamespaceElements: options.maxNamespaceElements,
      maxStickyPorts: MOST_STICKY_PORTS,
      features,
      lacking: options.lacking ?? [],
      settings: Object.assign({}, options.settings, ...ofConntrack),
    };
  });
}

function serverKeys(servers: readonly ServerAddress[], family: Family): readonly string[] {
  return servers
    .filter(({ address }) => familyOf(address) === family)
    .map(({ address, port }) => frontendKey(address, "tcp", port))
    .sort();
}

/** `--bind-address` overrides the Node's own address, as in kube-proxy. */
function primaryAddress({ bindAddress }: ProxyOptions, ofNode: string, family: Family): string {
  return !isUnspecified(bindAddress) && familyOf(bindAddress) === family ? bindAddress : ofNode;
}

function localTraffic(
  { detectLocal, clusterCIDRs }: ProxyOptions,
  podCIDRs: readonly string[],
  family: Family,
): LocalTraffic {
  switch (detectLocal.kind) {
    case "cluster-cidr":
      return sources(clusterCIDRs[family]);
    case "node-cidr":
      return sources(podCIDRs);
    case "bridge":
      return { kind: "interface", pattern: detectLocal.interface };
    case "interface-prefix":
      return { kind: "interface", pattern: wildcard(detectLocal.prefix) };
  }
}

/**
 * A prefix of the maximum length of a name (IFNAMSIZ of linux/if.h) is a name; nft 1.1.3 allows no asterisk
 * after it.
 */
function wildcard(prefix: string): string {
  return prefix.length < LONGEST_INTERFACE_NAME ? `${prefix}*` : prefix;
}

function sources(cidrs: readonly string[]): LocalTraffic {
  return cidrs.length === 0 ? { kind: "unknown" } : { kind: "sources", cidrs };
}

/** Reads the host. @throws AppError HOST if /proc cannot be read */
export async function readHostView(files: HostFiles): Promise<HostView> {
  return { families: await hostFamilies(files), ...(await hostAddresses(files)) };
}

/** Parts of a {@link NodeContextReader}. */
export interface NodeContextReaderParts {
  /** The current options. */
  readonly options: () => ProxyOptions;
  readonly cache: ObjectCache;
  readonly host: HostView;
  /** The API servers that the daemon connects to. */
  readonly apiServers: () => readonly ServerAddress[];
  /** Reads the host again, whose addresses may have changed. */
  readonly readHost: () => Promise<HostView>;
}

/** Makes the node context of the current options, our Node object and the host as it was last read. */
export class NodeContextReader {
  readonly #parts: NodeContextReaderParts;
  #host: HostView;

  constructor(parts: NodeContextReaderParts) {
    this.#parts = parts;
    this.#host = parts.host;
  }

  /** The host as it was last read. */
  get host(): HostView {
    return this.#host;
  }

  current(): NodeContext {
    const { options, cache, apiServers } = this.#parts;
    return nodeContextOf(options(), cache, this.#host, apiServers());
  }

  /** Reads the host again. @throws AppError HOST when it cannot be read */
  async refresh(): Promise<void> {
    this.#host = await this.#parts.readHost();
  }
}
