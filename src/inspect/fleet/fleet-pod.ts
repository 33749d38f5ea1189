/** The parts of a Pod that are read. Source: core/v1 Pod. */
export interface RawPod {
  readonly metadata?: { readonly name?: string; readonly deletionTimestamp?: string };
  readonly spec?: { readonly nodeName?: string };
  readonly status?: {
    readonly phase?: string;
    readonly reason?: string;
    readonly containerStatuses?: readonly RawContainerStatus[];
    readonly initContainerStatuses?: readonly RawContainerStatus[];
  };
}

interface RawContainerStatus {
  readonly state?: { readonly waiting?: { readonly reason?: string } };
}

/** A pod of nft-proxy on a node. */
export interface FleetPod {
  readonly name: string;
  readonly node: string;
  /** Why it may not answer, such as `its pod is Pending (ErrImagePull)`; "" when nothing is known to be wrong. */
  readonly trouble: string;
}

/**
 * The pods that stand for their nodes: those that end or have ended only where a node has no other, as while a DaemonSet
 * replaces its pods.
 */
export function fleetPods(pods: readonly RawPod[]): FleetPod[] {
  const current = new Set(pods.filter((pod) => !isEnding(pod)).map(({ spec }) => spec?.nodeName));
  return pods.flatMap((pod) => {
    const [name, node] = [pod.metadata?.name, pod.spec?.nodeName];
    if (name === undefined || node === undefined || (isEnding(pod) && current.has(node))) return [];
    return [{ name, node, trouble: troubleOf(pod) }];
  });
}

function isEnding({ metadata, status }: RawPod): boolean {
  return metadata?.deletionTimestamp !== undefined || status?.phase === "Failed" || status?.phase === "Succeeded";
}

function troubleOf({ metadata, status = {} }: RawPod): string {
  const { phase = "Running", initContainerStatuses = [], containerStatuses = [] } = status;
  const waiting = [...initContainerStatuses, ...containerStatuses].flatMap(({ state }) => state?.waiting?.reason ?? []);
  const reason = status.reason ?? waiting[0];
  if (metadata?.deletionTimestamp !== undefined) return "its pod is being deleted";
  if (phase === "Running" && reason === undefined) return "";
  return `its pod is ${phase}${reason === undefined ? "" : ` (${reason})`}`;
}
