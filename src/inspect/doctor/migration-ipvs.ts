import { alternatives, counted, listText } from "../../base/text.ts";
import { sameScheduler } from "../../config/ipvs-scheduler.ts";
import { SCHEDULERS } from "../../model/scheduler.ts";
import { diagnostic, type HostDiagnostic } from "./diagnostic.ts";
import type { MigrationFacts } from "./migration-facts.ts";
import { ARP_SETTINGS } from "./settings-check.ts";

/** What changes with the end of ipvs mode: schedulers, and the Services' addresses on the node's own interface. */
export function ipvsChanges(facts: MigrationFacts): HostDiagnostic[] {
  return [
    ...schedulerChanges(facts),
    diagnostic(
      "migration-cluster-ips",
      "ok",
      "cluster IPs are no addresses of this node any more",
      "their ports that no Service has are refused; under ipvs they reached this host's own programs",
    ),
    ...strictArpChanges(facts),
  ];
}

function schedulerChanges({ traces, objects }: MigrationFacts): HostDiagnostic[] {
  const scheduler = "problem" in objects ? undefined : objects.nodeContext[0]?.scheduler;
  return [...new Set(traces.ipvsSchedulers)].sort().map((ipvs) => {
    const count = traces.ipvsSchedulers.filter((other) => other === ipvs).length;
    const found = `${counted(count, "IPVS virtual server")} with scheduler ${ipvs}`;
    const same = sameScheduler(ipvs);
    if (same !== undefined && same === scheduler)
      return diagnostic("migration-scheduler", "ok", `${found}: ${same} here`);
    const means = `connections will be balanced by ${scheduler ?? "random, unless configured otherwise"}`;
    const action =
      same === undefined
        ? `nothing here is like ${ipvs}; choose of ${alternatives(SCHEDULERS)} with --scheduler or the annotation nft-proxy.io/scheduler`
        : `set nftProxy.scheduler (--scheduler) to ${same}, or the annotation nft-proxy.io/scheduler on the Services that need it`;
    return diagnostic("migration-scheduler", "warning", found, means, action);
  });
}

function strictArpChanges({ settings }: MigrationFacts): HostDiagnostic[] {
  const set = ARP_SETTINGS.filter((path) => (settings.get(path) ?? 0) !== 0);
  if (set.length === 0) return [];
  const found = set.map((path) => `${path.replace("/proc/sys/", "").replaceAll("/", ".")} is ${settings.get(path)}`);
  return [
    diagnostic(
      "migration-strict-arp",
      "ok",
      listText(found),
      "strictARP, which load balancers such as MetalLB ask for with ipvs, is not needed: no interface has the Services' addresses",
      "set them to 0 once kube-proxy is gone, unless other software needs them",
    ),
  ];
}
