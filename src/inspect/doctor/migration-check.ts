import { counted, listText } from "../../base/text.ts";
import { frontendText } from "../../ruleset/keys.ts";
import { diagnostic, type HostDiagnostic } from "./diagnostic.ts";
import type { MigratingServices, MigrationFacts } from "./migration-facts.ts";
import { forwardChanges } from "./migration-forward.ts";
import { ipvsChanges } from "./migration-ipvs.ts";
import { nodePortChanges } from "./migration-nodeports.ts";
import { type KubeProxyMode, tracedModes } from "./other-proxy-check.ts";

/** What changes for this cluster's clients when nft-proxy takes over this node from kube-proxy. */
export function judgeMigration(facts: MigrationFacts): HostDiagnostic[] {
  const modes = modesOf(facts);
  const general = [
    modeDiagnostic(modes),
    ...(modes.includes("ipvs") ? ipvsChanges(facts) : []),
    ...forwardChanges(facts.traces.chains),
  ];
  const { objects } = facts;
  if ("problem" in objects) return [...general, objectsUnknown(objects.problem)];
  return [
    ...general,
    ...nodePortChanges(modes, facts, objects),
    ...affinityChanges(objects),
    ...conflictNotes(objects),
  ];
}

function modesOf({ traces, answeredMode }: MigrationFacts): KubeProxyMode[] {
  const modes = new Set(tracedModes(traces));
  if (answeredMode !== undefined) modes.add(answeredMode);
  return [...modes].sort();
}

function modeDiagnostic(modes: readonly KubeProxyMode[]): HostDiagnostic {
  if (modes.length > 0)
    return diagnostic("migration", "ok", `kube-proxy's rules are on this host, of mode ${listText(modes)}`);
  return diagnostic(
    "migration",
    "warning",
    "unknown: no rules of kube-proxy were found on this host",
    "changes that depend on kube-proxy's mode are not listed",
    "run this as root on a node on which kube-proxy runs",
  );
}

function objectsUnknown(problem: string): HostDiagnostic {
  return diagnostic(
    "migration",
    "warning",
    `unknown: the cluster's Services (${problem})`,
    "changes of NodePorts and session affinity are not listed",
    "give --kubeconfig, or --from with files of the objects",
  );
}

function affinityChanges({ services }: MigratingServices): HostDiagnostic[] {
  const sticky = services.filter(({ affinitySeconds }) => affinitySeconds > 0);
  if (sticky.length === 0) return [];
  return [
    diagnostic(
      "migration-affinity",
      "warning",
      `${counted(sticky.length, "Service")} with session affinity (${listText(sticky.map(({ name }) => name))})`,
      "each client is given an endpoint anew, once",
      "migrate at a quiet time if sessions are kept in the endpoints",
    ),
  ];
}

function conflictNotes({ conflicts }: MigratingServices): HostDiagnostic[] {
  return conflicts.map(({ frontend, winner, losers }) =>
    diagnostic(
      "migration-conflict",
      "warning",
      `${frontendText(frontend)} is wanted by ${listText([winner, ...losers].map(({ service }) => service.name))}`,
      `${winner.service.name}, the oldest, will have it; under kube-proxy the winner is arbitrary`,
      "remove the address and port from the others",
    ),
  );
}
