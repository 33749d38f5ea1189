import { execa } from "execa";
import { extLinks, lanLinks, type NamespaceNamer, node2Links, nodeLinks, podLinks } from "./links.ts";
import { machineNames, type NamespaceName, podNames } from "./topology.ts";

const namespaceNames: readonly NamespaceName[] = ["lan", ...machineNames];

/** The command, program first, that runs the command after it inside the namespace of this full name. */
export function enterCommand(name: string): readonly [string, ...string[]] {
  // Not `ip netns exec`: that mounts a new /sys, which user namespaces in containers may not.
  return ["nsenter", `--net=/run/netns/${name}`];
}

/** Adds the lab's namespaces, empty. Throws with the words of `ip`. */
export async function addNamespaces(nameOf: NamespaceNamer): Promise<void> {
  await ipBatch(
    [],
    namespaceNames.map((namespace) => `netns add ${nameOf(namespace)}`),
  );
}

/** Gives the namespaces their links, addresses and routes. Throws with the words of `ip`. */
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

/** Removes the lab's namespaces and with them every link and rule inside. Their processes must have ended. */
export async function removeNamespaces(nameOf: NamespaceNamer): Promise<void> {
  await ipBatch(
    [],
    namespaceNames.map((namespace) => `netns del ${nameOf(namespace)}`),
  );
}

async function ipBatch(options: readonly string[], lines: readonly string[]): Promise<void> {
  await execa("ip", [...options, "-batch", "-"], { input: `${lines.join("\n")}\n` });
}
