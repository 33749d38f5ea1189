import { execa } from "execa";
import { extLinks, lanLinks, type NamespaceNamer, node2Links, nodeLinks, podLinks } from "./links.ts";
import { machineNames, type NamespaceName, podNames } from "./topology.ts";

const namespaceNames: readonly NamespaceName[] = ["lan", ...machineNames];

/** Returns the path of the namespace with this full name. */
export function namespacePath(name: string): string {
  return `/run/netns/${name}`;
}

/**
 * Returns a command (program first) that runs the following command inside the namespace with this full name.
 */
export function enterCommand(name: string): readonly [string, ...string[]] {
  // `ip netns exec` would mount a new /sys, which is forbidden in user namespaces of containers.
  return ["nsenter", `--net=${namespacePath(name)}`];
}

/** Adds the lab's namespaces, which are empty. Throws with the message of `ip`. */
export async function addNamespaces(nameOf: NamespaceNamer): Promise<void> {
  await ipBatch(
    [],
    namespaceNames.map((namespace) => `netns add ${nameOf(namespace)}`),
  );
}

/** Adds links, addresses and routes to the namespaces. Throws with the message of `ip`. */
export async function layLinks(nameOf: NamespaceNamer): Promise<void> {
  const batch = (namespace: NamespaceName, lines: readonly string[]) =>
    ipBatch(["-n", nameOf(namespace)], lines);
  await batch("lan", lanLinks(nameOf));
  await batch("node", nodeLinks(nameOf));
  await Promise.all([
    batch("node2", node2Links()),
    batch("ext", extLinks()),
    ...podNames.map((pod) => batch(pod, podLinks(pod))),
  ]);
}

/** Removes the lab's namespaces with all their links and rules. Their processes must have ended. */
export async function removeNamespaces(nameOf: NamespaceNamer): Promise<void> {
  await ipBatch(
    [],
    namespaceNames.map((namespace) => `netns del ${nameOf(namespace)}`),
  );
}

async function ipBatch(options: readonly string[], lines: readonly string[]): Promise<void> {
  await execa("ip", [...options, "-batch", "-"], { input: `${lines.join("\n")}\n` });
}
