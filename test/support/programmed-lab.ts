import { FAMILIES } from "../../src/base/family.ts";
import type { ObjectCache } from "../../src/model/object-cache.ts";
import { type Ruleset, TABLE_NAME } from "../../src/nft/ast/ruleset.ts";
import { diffRuleset, type TableDelta } from "../../src/nft/delta.ts";
import { rebuildTransaction, toTransaction } from "../../src/nft/transaction.ts";
import { transactionText } from "../../src/nft/transaction-text.ts";
import { adoptNumbers } from "../../src/ruleset/adopt-numbers.ts";
import { withoutObjectDeletions } from "../../src/ruleset/apply-plan.ts";
import type { NodeContext } from "../../src/ruleset/node-context.ts";
import { Renderer } from "../../src/ruleset/renderer.ts";
import { cacheOf, type Objects, renderAll, testNodeContext } from "./build.ts";
import { createLab, type Lab } from "./lab/lab.ts";
import type { Outcome, Probe, Tally } from "./lab/outcome.ts";
import { parseWithElements } from "./listed-elements.ts";
import { objectWords } from "./object-words.ts";

/** A daemon's objects, and the rules that it has made from them. */
interface Rendered {
  readonly cache: ObjectCache;
  readonly renderer: Renderer;
}

/** A lab whose node has the rules of clusters made by build.ts. */
export class ProgrammedLab {
  readonly lab: Lab;
  #ruleset: Ruleset = renderAll({}).state.ruleset;
  /** Undefined until the first objects are programmed. */
  #rendered: Rendered | undefined;

  private constructor(lab: Lab) {
    this.lab = lab;
  }

  /** Creates a lab with the rules of a cluster without Services. */
  static async create(): Promise<ProgrammedLab> {
    const programmed = new ProgrammedLab(await createLab());
    await programmed.lab.loadTransaction(JSON.stringify(rebuildTransaction(programmed.#ruleset)));
    return programmed;
  }

  /**
   * Changes the node's rules in place to those of these objects, as a restart does. Affinity entries stay.
   */
  async program(objects: Objects, nodeContext: NodeContext = testNodeContext()): Promise<void> {
    const cache = cacheOf(objects);
    const renderer = new Renderer(cache, nodeContext);
    renderer.update(cache.takeDirty());
    await this.#apply(renderer, adoptNumbers(renderer.state, this.#ruleset));
    this.#rendered = { cache, renderer };
  }

  /** Changes the rules to those of these objects, as a daemon that sees the changes does. */
  async follow(objects: Objects): Promise<void> {
    if (this.#rendered === undefined) return await this.program(objects);
    const { cache, renderer } = this.#rendered;
    const { services = [], slices = [] } = objects;
    const names = new Set([...services, ...slices].map(({ name }) => name));
    for (const name of cache.serviceNames()) if (!names.has(name)) cache.deleteService(name);
    for (const slice of cache.allSlices()) if (!names.has(slice.name)) cache.deleteSlice(slice);
    for (const service of services) cache.putService(service);
    for (const slice of slices) cache.putSlice(slice);
    renderer.update(cache.takeDirty());
    await this.#apply(renderer, renderer.state.pending());
  }

  async #apply({ state }: Renderer, deltas: readonly TableDelta[]): Promise<void> {
    const deletesTimeouts = objectWords(deltas).some((word) => word.startsWith("- ct timeout "));
    const { main, objectDeletions } = withoutObjectDeletions(deltas);
    for (const step of deletesTimeouts ? [main, objectDeletions] : [deltas]) {
      const transaction = toTransaction(step);
      if (transaction.nftables.length > 0) await this.lab.loadTransaction(transactionText(transaction).text);
    }
    state.markCommitted();
    this.#ruleset = state.ruleset;
  }

  /** Returns the differences of the kernel from the desired rules. */
  async differences(): Promise<readonly TableDelta[]> {
    const listings = await Promise.all(
      FAMILIES.map(async (family) =>
        parseWithElements(await this.nft("-j", "list", "table", family, TABLE_NAME)),
      ),
    );
    return diffRuleset(Object.assign({}, ...listings), this.#ruleset);
  }

  /** Makes one probe. */
  async outcome(probe: Omit<Probe, "id">): Promise<Outcome> {
    const outcome = (await this.lab.probe([{ id: "only", ...probe }])).get("only");
    if (outcome === undefined) throw new Error("a probe without an outcome");
    return outcome;
  }

  /**
   * Returns the answers to a client's connections: sorted addresses of endpoints, or words such as `refused`.
   */
  async answers(probe: Omit<Probe, "id">): Promise<readonly string[]> {
    const tally: Tally = (await this.lab.observe([{ id: "only", ...probe }])).get("only") ?? {};
    return [...new Set(Object.keys(tally).map((answer) => answer.split(" ")[0] ?? ""))].sort();
  }

  /** Runs an nft command on the node and returns its output. Throws its error output. */
  nft(...command: [string, ...string[]]): Promise<string> {
    return this.lab.mustRun("node", ["nft", ...command]);
  }

  /** Closes the lab. */
  close(): Promise<void> {
    return this.lab.close();
  }
}
