import { addStep, type Branch, isSourceNat } from "./branch.ts";
import { endBranch } from "./end-branch.ts";
import type { Hook } from "./outcome.ts";
import { type AnsweredConnection, isLocal, isLoopback } from "./packet.ts";

/** Translates later packets of a connection at the place of the nat chains, as the kernel does. */
export function translateAgain(branch: Branch): void {
  const { conntrack, endpoint, answers } = branch.evaluation.packet;
  if (answers !== undefined) {
    translateBack(answers, branch);
    return;
  }
  if (conntrack !== "established" || endpoint === undefined || branch.hook === "postrouting") return;
  branch.destination = endpoint.address;
  branch.port = endpoint.port;
  branch.translated = true;
}

/** Translates an answer: its destination to the client's address, then its source to the Service's. */
function translateBack({ packet, isTranslated }: AnsweredConnection, branch: Branch): void {
  if (!isSourceNat(branch.hook)) branch.isDestinationKnown = true;
  else if (isTranslated) {
    branch.source = packet.to;
    branch.sourcePort = packet.port;
  }
}

/** Whether a packet passes its hook's nat chains: only a connection's first one, until translated. */
export function meetsNat(branch: Branch): boolean {
  if (branch.evaluation.packet.conntrack === "established") return false;
  return isSourceNat(branch.hook) ? !branch.sourceNatDone : !branch.destinationNatDone;
}

/**
 * Chooses the next hook. Source: https://wiki.nftables.org/wiki-nftables/index.php/Netfilter_hooks
 * @returns false if the packet has passed all of them
 */
export function route(branch: Branch): boolean {
  translateAgain(branch);
  const { host, packet, family } = branch.evaluation;
  const local = isLocal(host, branch.destination);
  switch (branch.hook) {
    case "prerouting":
      branch.destinationNatDone = true;
      if (isLoopback(branch.destination) && branch.iifname !== "lo" && packet.answers === undefined) {
        addStep(branch, { kind: "martian", address: branch.destination });
        return endBranch(branch, { kind: "dropped" });
      }
      // ip_forward() sets the priority from the type of service, ip6_forward() does not.
      if (!local && family === "ip") branch.priority = 0;
      return goTo(branch, local ? "input" : "forward");
    case "output":
      branch.destinationNatDone = true;
      return goTo(branch, "postrouting");
    case "forward":
      return goTo(branch, "postrouting");
    case "postrouting":
      branch.sourceNatDone = true;
      if (packet.from.at !== "node" || !local) return deliver(branch, false);
      branch.iifname = "lo";
      return goTo(branch, "prerouting");
    case "input":
      return deliver(branch, true);
  }
}

function goTo(branch: Branch, hook: Hook): boolean {
  branch.hook = hook;
  branch.base = 0;
  return true;
}

function deliver(branch: Branch, local: boolean): boolean {
  return endBranch(branch, {
    kind: "delivered",
    to: { address: branch.destination, port: branch.port },
    local,
    translated: branch.translated,
    source: branch.masqueraded ? "masqueraded" : "kept",
    mark: branch.mark,
    priority: branch.priority,
  });
}
