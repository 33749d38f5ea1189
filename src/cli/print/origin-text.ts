import type { DaemonFreshness, DesiredOrigin } from "../../inspect/load/load-request.ts";

const OBJECTS: Readonly<Record<"files" | "cluster", string>> = {
  files: "objects from files",
  cluster: "objects of the cluster",
};

/** The source of a desired state: `daemon on node-1, verified 12 s ago`; `objects from files, options given here`. */
export function originText({ objects, daemon }: DesiredOrigin): string {
  if (daemon === undefined) return `${OBJECTS[objects === "daemon" ? "cluster" : objects]}, options given here`;
  const source = daemonText(daemon);
  return objects === "daemon" ? source : `${OBJECTS[objects]}, options of the ${source}`;
}

function daemonText({ nodeName, verifiedAgo, pendingFor }: DaemonFreshness): string {
  const verified = verifiedAgo === undefined ? "not verified yet" : `verified ${verifiedAgo} s ago`;
  const pending = pendingFor === undefined ? "" : `, changes pending for ${pendingFor} s`;
  return `daemon on ${nodeName}, ${verified}${pending}`;
}

/** A warning while the daemon's syncs fail: the kernel lacks changes. */
export function pendingNotices({ daemon }: DesiredOrigin): string[] {
  if (daemon?.problem === undefined) return [];
  return [`warning: the daemon's last sync failed, and the kernel lacks changes: ${daemon.problem}`];
}
