import { loadDesired } from "../inspect/load/desired.ts";
import { COMMANDS } from "./commands.ts";
import { loadRequest, optionsBesideDaemon } from "./options.ts";

/** The values of flags that take one of a few. */
const VALUES: Readonly<Record<string, readonly string[]>> = {
  "config-change": ["reload", "exit"],
  "detect-local-mode": ["ClusterCIDR", "NodeCIDR", "BridgeInterface", "InterfaceNamePrefix"],
  family: ["ip", "ip6"],
  "logging-format": ["text", "json"],
  proto: ["tcp", "udp", "sctp"],
  "service-counters": ["off", "services", "endpoints"],
  source: ["pod", "node", "outside"],
};

/** Names may take a moment; a shell that waits longer is worse than one without them. */
const NAMES_WITHIN_MS = 3000;

/**
 * The completions of a flag's value or of a positional Service: formats, Services, namespaces.
 * @param words the words of the command line without the program's name; the last one is to be completed
 * @returns undefined where commands, flags or files are to be completed
 */
export async function completeValue(words: readonly string[]): Promise<string[] | undefined> {
  const current = words.at(-1) ?? "";
  const command = COMMANDS.find(({ name }) => name === words[0]);
  if (command === undefined || words.length < 2 || current.startsWith("-")) return undefined;
  const flag = LONG_NAMES[words.at(-2) ?? ""] ?? /^--([\w-]+)$/.exec(words.at(-2) ?? "")?.[1];
  const found = await valuesOf(flag, command, words);
  return found?.filter((value) => value.startsWith(current));
}

const LONG_NAMES: Readonly<Record<string, string>> = { "-n": "namespace", "-o": "output", "-f": "from" };

async function valuesOf(
  flag: string | undefined,
  { formats, flags, positional }: (typeof COMMANDS)[number],
  words: readonly string[],
): Promise<readonly string[] | undefined> {
  if (flag !== undefined && VALUES[flag] !== undefined) return VALUES[flag];
  if (flag === "output" || flag === "format") return formats ?? ["text", "json"];
  if (flag === "namespace") return namespacesOf(await serviceNames(words));
  const isPositional = positional !== undefined && !(flag !== undefined && flags.includes(flag) && flag !== "live");
  if (flag !== "service" && !isPositional) return undefined;
  const namespace = valueAfter(words, ["-n", "--namespace"]);
  const names = await serviceNames(words);
  return namespace === undefined ? names : names.flatMap((name) => withoutNamespace(name, namespace));
}

function namespacesOf(names: readonly string[]): string[] {
  return [...new Set(names.map((name) => name.slice(0, name.indexOf("/"))))];
}

function withoutNamespace(name: string, namespace: string): string[] {
  return name.startsWith(`${namespace}/`) ? [name.slice(namespace.length + 1)] : [];
}

/** The names of the Services of `--from`, or of the cluster; none when they cannot be loaded in time. */
async function serviceNames(words: readonly string[]): Promise<string[]> {
  const from = valueAfter(words, ["-f", "--from"]);
  const given = ["config", "kubeconfig", "master"].flatMap((name) => {
    const value = valueAfter(words, [`--${name}`]);
    return value === undefined ? [] : [[name, value] as const];
  });
  const argv = { ...Object.fromEntries(given), ...(from === undefined ? {} : { from: [from] }) };
  try {
    const loaded = loadDesired(loadRequest(argv, await optionsBesideDaemon(argv)));
    const late = new Promise<undefined>((resolve) => setTimeout(() => resolve(undefined), NAMES_WITHIN_MS).unref());
    return (await Promise.race([loaded, late]))?.cache.serviceNames() ?? [];
  } catch {
    return [];
  }
}

function valueAfter(words: readonly string[], names: readonly string[]): string | undefined {
  for (const [index, word] of words.entries()) {
    const joined = names.find((name) => word.startsWith(`${name}=`));
    if (joined !== undefined) return word.slice(joined.length + 1);
    if (names.includes(word) && index + 1 < words.length - 1) return words[index + 1];
  }
  return undefined;
}
