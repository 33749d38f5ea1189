import type { Command } from "./command.ts";

/** Every command, in the order of `--help`. */
export const COMMANDS: readonly Command[] = [
  {
    name: "cleanup",
    summary: "Remove the rules from this node",
    flags: ["kube-proxy"],
    load: async () => await import("./commands/cleanup.ts"),
  },
];
