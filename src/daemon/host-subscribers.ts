import { messageOf } from "../base/errors.ts";
import { FailureLog } from "../base/failure-log.ts";
import type { Family } from "../base/family.ts";
import type { ProxyOptions } from "../config/options.ts";
import { addressSubscriber, StaleFlowCleaner, staleFlowSubscriber } from "../conntrack/stale-flow-cleaner.ts";
import { nodePortHosts, UdpFrontends } from "../conntrack/udp-frontends.ts";
import { systemErrorCode } from "../kernel/host.ts";
import { reservePorts } from "../kernel/reserved-ports.ts";
import { parseFrontendKey } from "../ruleset/keys.ts";
import { LOOPBACK_NODEPORT_ADDRESSES } from "../ruleset/loopback.ts";
import type { RulesetState } from "../ruleset/ruleset-state.ts";
import type { SyncSubscriber } from "../sync/sync-report.ts";
import type { DaemonInput } from "./daemon-input.ts";
import type { EventRecorder } from "./events/event-recorder.ts";
import { serviceSubject, warning } from "./events/events.ts";
import { serviceHealthServers, serviceHealthSubscriber } from "./health/service-health.ts";
import { type LoopbackProxy, loopbackProxy, wantedNodePorts } from "./loopback/loopback-proxy.ts";
import type { Metrics } from "./metrics/metrics.ts";
import type { Proxier } from "./proxier.ts";

/**
 * Reserves the NodePorts, because an outgoing connection with such a local port would get no answers.
 * Source: https://github.com/kubernetes/kubernetes/issues/111682
 * @param desired the desired state
 * @param isWanted returns `--reserve-nodeports`; if it is off, earlier reservations are removed
 */
function reservedPorts(
  { system, logger }: DaemonInput,
  desired: () => RulesetState,
  isWanted: () => boolean,
): SyncSubscriber {
  const { clock, reservedPorts: files } = system;
  const failures = new FailureLog({ logger, clock }, "reserve NodePorts");
  /** The ports of the last attempt, as text. */
  let last = "";
  let queue: Promise<void> = Promise.resolve();
  const reserve = async (wanted: ReadonlySet<number>) => {
    try {
      if (await reservePorts(wanted, files)) logger.info({ ports: wanted.size }, "reserved NodePorts");
      failures.end();
    } catch (error) {
      const hint = "ip_local_reserved_ports must be writable: run privileged in the host's network namespace";
      failures.add(systemErrorCode(error), { hint });
    }
  };
  const isChanged = nodePortsChange();
  let wasWanted = false;
  return {
    synced({ kind }) {
      const state = desired();
      // Other programs may have changed the list, so a full sync checks it again.
      const isDue = kind === "full" || failures.isFailing;
      const isOn = isWanted();
      // Called for each sync, as it compares with the last call.
      const areChanged = isChanged(state);
      if (!areChanged && isOn === wasWanted && !isDue) return;
      wasWanted = isOn;
      const wanted = isOn ? nodePortsOf(state) : new Set<number>();
      const text = [...wanted].sort((a, b) => a - b).join();
      if (text === last && !isDue) return;
      last = text;
      queue = queue.then(() => reserve(wanted));
    },
  };
}

/**
 * Makes the changes of the host besides rules, and what listens on ports of Services: health check node
 * ports, NodePorts on loopback, reserved ports, and the cleaner of stale UDP flows.
 * @param options returns the current options
 * @param isServed whether a family can take new connections
 */
export function hostServices(
  input: DaemonInput,
  options: () => ProxyOptions,
  proxier: Proxier,
  isServed: (family: Family) => boolean,
  metrics: Metrics,
  events: EventRecorder,
) {
  const { system, logger, nodeName } = input;
  const { clock } = system;
  const { cache, reconciler, nodeContext, stateParts } = proxier;
  const state = () => reconciler.state;
  const health = serviceHealthServers({
    isProxyHealthy: isServed,
    clock,
    logger,
    onFailure(service, port, error) {
      // The reason and the note are kube-proxy's.
      const note = `node ${nodeName} failed to start healthcheck "${service}" on port ${port}: ${messageOf(error)}`;
      const subject = serviceSubject(cache, service);
      events.record(warning(subject, "FailedToStartServiceHealthcheck", "Listen", note));
    },
  });
  const loopback = loopbackProxy({
    targets: LOOPBACK_NODEPORT_ADDRESSES,
    clock,
    logger,
    onBindFailed: ({ family, port, service }, error) => {
      metrics.observe("loopbackBindFailed", { family });
      const note = `node ${nodeName} cannot serve NodePort ${port} on loopback, retrying: ${messageOf(error)}`;
      const subject = serviceSubject(cache, service);
      events.record(warning(subject, "FailedToListenLocalhostNodePort", "Listen", note));
    },
  });
  const ends = stateParts.flatMap(({ flows }) => flows ?? []);
  const frontends = new UdpFrontends({
    cache,
    state,
    ended: () => {
      const areEnded = ends.map((one) => one.endedIn(state()));
      return (service, endpoint) => areEnded.some((isEnded) => isEnded(service, endpoint));
    },
  });
  const cleaner = new StaleFlowCleaner({
    table: system.flows,
    frontends,
    localAddresses: () => nodeContext.host.local,
    nodePortHosts: () => nodePortHosts(nodeContext.current(), nodeContext.host.addresses),
    clock,
    logger,
    onCleaned: (report) => metrics.observe("flowsCleaned", report),
  });
  return {
    loopback,
    /** To be subscribed to syncs. */
    subscribers: [
      serviceHealthSubscriber(cache, health),
      staleFlowSubscriber(frontends, cleaner, ends, () => clock.monotonic()),
      loopbackNodePorts(loopback, state),
      reservedPorts(input, state, () => options().reserveNodePorts),
    ],
    /** To be called with all addresses of the host after they were read. */
    addressesRead: addressSubscriber(cleaner),
    /** Closes the ports. Never rejects. */
    close: () => Promise.all([health.close(), loopback.close()]),
  };
}

/**
 * Makes the loopback proxy serve NodePorts with endpoints after each sync. @param desired the desired state
 */
export function loopbackNodePorts(
  loopback: Pick<LoopbackProxy, "sync">,
  desired: () => RulesetState,
): SyncSubscriber {
  const isChanged = nodePortsChange();
  return {
    synced({ nodeContext }) {
      const state = desired();
      // A new node context also changes the revision, as it renders all NodePorts.
      if (isChanged(state)) void loopback.sync(wantedNodePorts(state, nodeContext));
    },
  };
}

/**
 * Returns a function that tells whether a NodePort changed since its last call, without comparing all of
 * them.
 */
function nodePortsChange(): (state: RulesetState) => boolean {
  let known: { readonly state: RulesetState; readonly revision: number } | undefined;
  return (state) => {
    const revision = state.nodePortsRevision;
    if (known?.state === state && known.revision === revision) return false;
    known = { state, revision };
    return true;
  };
}

/** Returns the NodePorts of both families and all protocols, with and without endpoints. */
function nodePortsOf(state: RulesetState): Set<number> {
  const ports = new Set<number>();
  for (const family of Object.values(state.families)) {
    for (const key of family.nodePorts) ports.add(parseFrontendKey(key).port);
  }
  return ports;
}
