import { FEATURES } from "../../features/registry.ts";
import type { FeatureCommand } from "../../features/seam/command.ts";
import {
  ASKING_FLAGS,
  CLUSTER_FLAGS,
  type Command,
  FEATURE_ARGUMENT,
  FORMATS,
  NODE_FLAGS,
} from "../command.ts";

/** Every command, in the order of `--help`. */
export const COMMANDS: readonly Command[] = [
  {
    name: "run",
    summary: "Program this node from a cluster, as a daemon",
    flags: ["from", "dry-run", "cleanup", "init-only", "write-config-to"],
    meanings: { "dry-run": "Change nothing; log the size of each change, and with -v=4 the change itself" },
    common: [...ASKING_FLAGS, "v"],
    load: async () => await import("../commands/run.ts"),
  },
  {
    name: "apply",
    summary: "Program this node from files, once",
    flags: ["from", "force"],
    lacks: { "dry-run": "nft-proxy diff --from PATH shows what apply would change" },
    common: NODE_FLAGS,
    load: async () => await import("../commands/apply.ts"),
  },
  {
    name: "dump",
    summary: "Print the nftables transaction of the desired state",
    formats: ["json", "nft"],
    flags: ["from", "context", "output", "service", "namespace", "family", "diff"],
    meanings: { namespace: "The namespace of a Service that is named without one" },
    load: async () => await import("../commands/dump.ts"),
  },
  {
    name: "diff",
    summary: "Compare the desired state with this kernel, other objects, or kube-proxy",
    formats: [...FORMATS, "github"],
    flags: [
      "from",
      "context",
      "against",
      "with",
      "with-tables",
      "live",
      "outcomes",
      "with-objects",
      "fail-on",
      "output",
    ],
    meanings: {
      live: "With --with: compare kube-proxy's tables with nft-proxy's in the kernel, not the desired state",
    },
    examples: [
      ["--with kube-proxy", "connections whose outcome differs under kube-proxy's tables (nftables mode)"],
      ["--outcomes --from OLD --with-objects NEW", "connections whose outcome differs with other objects"],
    ],
    load: async () => await import("../commands/diff.ts"),
  },
  {
    name: "check",
    summary: "Check objects and their transaction, for CI",
    formats: [...FORMATS, "github"],
    flags: ["from", "output", "exclude", "strict", "no-strict"],
    examples: [
      ["-f manifests/ --exclude node-port-range", "everything but one kind of diagnostic, named by its code"],
      ["-f manifests/ --exclude Service/shop/cart", "everything but the diagnostics of one object"],
    ],
    common: NODE_FLAGS,
    load: async () => await import("../commands/check.ts"),
  },
  {
    name: "explain",
    summary: "Explain the outcome of a connection, rule by rule",
    positional: {
      name: "what",
      description: "ADDRESS:PORT[/PROTOCOL], ADDRESS (whether it answers pings), or SERVICE[:PORT]",
      values: "services",
    },
    flags: [
      ...["from", "context", "from-ip", "source", "to", "port", "proto", "service", "namespace", "live"],
      ...["all", "problems", "exit-code", "output"],
    ],
    meanings: {
      namespace: "The namespace of a Service that is named without one; of --all, only its Services",
    },
    examples: [
      ["10.96.0.10:53/udp", "a connection from a pod"],
      ["203.0.113.7:443 --from-ip 198.51.100.9", "one from outside"],
      ["10.96.0.10", "whether an address answers pings"],
      ["shop/cart:http", "every frontend of a Service's port"],
      ["--live 10.96.0.10:53", "with the rules in this kernel"],
      ["--all --problems --exit-code", "every frontend that is refused or dropped"],
    ],
    load: async () => await import("../commands/explain.ts"),
  },
  {
    name: "refusals",
    summary: "List connections that this host refused or dropped in the last hour, and why",
    flags: ["from", "context", "namespace", "service", "client", "watch", "output"],
    meanings: {
      from: "Read the objects from these files; without files, daemon and API server, causes are unknown",
      namespace: "Only Services of this namespace",
      client: "Only this client address",
    },
    examples: [
      ["-n shop", "to Services of one namespace"],
      ["--client 10.244.1.9 --watch", "of one client, as they happen"],
    ],
    load: async () => await import("../commands/refusals.ts"),
  },
  {
    name: "trace",
    summary: "Follow real packets through the chains of all tables on this host",
    flags: [
      ...["from", "context", "to", "port", "proto", "service", "namespace", "from-ip", "client"],
      ...["duration", "rate", "output"],
    ],
    meanings: {
      namespace: "The namespace of a Service that is named without one",
      service: "Only packets to this Service, or to one port of it (needs objects)",
      from: "Read the objects from these files; without files, daemon and API server, there are no names",
      client: "Only packets of this client and, without --to, those to it",
      "from-ip": "Only packets from this source address",
      port: "Only packets to this destination port",
      proto: "Only packets of this protocol: tcp (the default with --port), udp, sctp, or icmp for pings",
      to: "Only packets to this destination address",
    },
    examples: [
      ["--to 10.96.0.10 --port 53 --proto udp", "packets to a ClusterIP"],
      ["--service shop/cart --from-ip 10.244.1.9", "packets of one client to a Service"],
      ["--client 192.0.2.77 --duration 5m --rate 1", "everything from and to a client"],
    ],
    load: async () => await import("../commands/trace.ts"),
  },
  {
    name: "connections",
    summary: "Count this host's connections by Service and endpoint",
    flags: ["from", "context", "service", "namespace", "client", "draining", "output"],
    meanings: {
      namespace: "The namespace of a Service that is named without one",
      client: "Only this client address",
    },
    examples: [
      ["--draining", "connections to endpoints that are terminating or gone, and their clients"],
      ["--service shop/cart --output json", "one Service, for scripts"],
    ],
    load: async () => await import("../commands/connections.ts"),
  },
  ...FEATURES.flatMap(({ command }) => (command === undefined ? [] : [ofFeature(command)])),
  {
    name: "cleanup",
    summary: "Remove the rules from this node",
    flags: ["kube-proxy", "dry-run", "force"],
    common: ["nft-path"],
    load: async () => await import("../commands/cleanup.ts"),
  },
  {
    name: "config",
    summary: "Print the effective configuration, or validate a file",
    flags: ["defaults", "validate", "strict"],
    load: async () => await import("../commands/config.ts"),
  },
  {
    name: "fleet",
    summary: "Show the state of nft-proxy on every node, worst first",
    flags: ["context", "namespace", "selector", "wait", "output"],
    meanings: { namespace: "The namespace of the pods; kube-system by default" },
    examples: [["--wait", "wait for an installation or an upgrade"]],
    common: CLUSTER_FLAGS,
    load: async () => await import("../commands/fleet.ts"),
  },
  {
    name: "support-bundle",
    summary: "Collect one archive for a bug report",
    positional: { name: "file", description: "The archive's path, - for standard output" },
    flags: ["redact", "cluster", "context", "namespace", "selector"],
    meanings: { namespace: "The namespace of the pods; kube-system by default" },
    examples: [
      ["--redact - > nft-proxy.tar.gz", "without names and addresses, to standard output"],
      ["--cluster --context prod", "of all nodes, from anywhere with a kubeconfig"],
    ],
    common: ["hostname-override", "nft-path", "daemon-socket", ...CLUSTER_FLAGS],
    load: async () => await import("../commands/support-bundle.ts"),
  },
  {
    name: "doctor",
    summary: "Report what this host lacks and what breaks Services on it",
    flags: ["migration", "from", "context", "output", "strict"],
    meanings: {
      from: "With --migration: read the objects from these files and directories (- for standard input)",
    },
    examples: [["--migration", "also what changes for clients when nft-proxy replaces kube-proxy"]],
    load: async () => await import("../commands/doctor.ts"),
  },
  {
    name: "version",
    summary: "Print the versions of nft-proxy, the running daemon, nft, the kernel, socat and Node.js",
    flags: ["output"],
    common: ["nft-path", "daemon-socket"],
    load: async () => await import("../commands/version.ts"),
  },
  {
    name: "completion",
    summary: "Print a script that makes the shell complete commands, options and names of Services",
    positional: {
      name: "shell",
      description: "bash, zsh or fish; the shell of $SHELL by default",
      values: ["bash", "zsh", "fish"],
    },
    flags: [],
    examples: [
      ["bash >> ~/.bashrc", "for all new shells"],
      ["zsh >> ~/.zshrc", "the same, after compinit"],
      ["fish | source", "for this shell, or in ~/.config/fish/config.fish"],
    ],
    common: [],
    load: async () => await import("../commands/completion.ts"),
  },
];

function ofFeature(command: FeatureCommand): Command {
  const { name, summary, formats, flags, meanings = {}, examples } = command;
  return {
    name,
    summary,
    formats: [...formats, "yaml"],
    positional: {
      name: FEATURE_ARGUMENT,
      description: "SERVICE[:PORT], or ADDRESS of a client, Service or endpoint; all if absent",
      values: "services",
    },
    flags: [
      ...["from", "context", "namespace", "output"],
      ...flags.map((flag) => flag.name),
      ...Object.keys(meanings),
    ],
    meanings: {
      namespace: "The namespace of a Service that is named without one; without SERVICE, only its Services",
      ...meanings,
    },
    examples,
    load: async () => {
      const { runnerOf } = await import("../commands/feature-command.ts");
      return { run: runnerOf(command) };
    },
  };
}

/** The command with this name; undefined if there is none. */
export function commandOf(name: string | undefined): Command | undefined {
  return COMMANDS.find((command) => command.name === name);
}

/** Whether the command with this name takes a positional argument. */
export function takesWord(name: string | undefined): boolean {
  return commandOf(name)?.positional !== undefined;
}
