import type { Ruleset } from "../../src/nft/ast/ruleset.ts";
import { diffRuleset } from "../../src/nft/delta.ts";
import { rebuildTransaction, toTransaction } from "../../src/nft/transaction.ts";
import type { NodeContext } from "../../src/ruleset/node-context.ts";
import { type Objects, renderAll, testNodeContext } from "./build.ts";
import { createLab, type Lab } from "./lab/lab.ts";
import type { Outcome, Probe, Tally } from "./lab/outcome.ts";

/** A lab whose node has the rules of clusters made by build.ts. */
export class ProgrammedLab {
  readonly lab: Lab;
  #ruleset: Ruleset = renderAll({}).state.ruleset;

  private constructor(lab: Lab) {
    this.lab = lab;
  }

  /** Makes a lab with the rules of a cluster without Services. */
  static async create(): Promise<ProgrammedLab> {
    const programmed = new ProgrammedLab(await createLab());
    await programmed.lab.loadTransaction(JSON.stringify(rebuildTransaction(programmed.#ruleset)));
    return programmed;
  }

  /** Turns the node's rules into those of these objects, in place; what affinity remembers stays. */
  async program(objects: Objects, nodeContext: NodeContext = testNodeContext()): Promise<void> {
    const next = renderAll(objects, nodeContext).state.ruleset;
    const transaction = toTransaction(diffRuleset(this.#ruleset, next));
    if (transaction.nftables.length > 0) await this.lab.loadTransaction(JSON.stringify(transaction));
    this.#ruleset = next;
  }

  /** Makes one probe. */
  async outcome(probe: Omit<Probe, "id">): Promise<Outcome> {
    const outcome = (await this.lab.probe([{ id: "only", ...probe }])).get("only");
    if (outcome === undefined) throw new Error("a probe without an outcome");
    return outcome;
  }

  /** What answered a client's connections: sorted addresses of endpoints, or words such as `refused`. */
  async answers(probe: Omit<Probe, "id">): Promise<readonly string[]> {
    const tally: Tally = (await this.lab.observe([{ id: "only", ...probe }])).get("only") ?? {};
    return [...new Set(Object.keys(tally).map((answer) => answer.split(" ")[0] ?? ""))].sort();
  }

  /** Runs one nft command on the node and gives its output; throws what nft complains of. */
  nft(...command: [string, ...string[]]): Promise<string> {
    return this.lab.mustRun("node", ["nft", ...command]);
  }

  /** Ends the lab. */
  close(): Promise<void> {
    return this.lab.close();
  }
}
