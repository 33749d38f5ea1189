import { AppError } from "../../base/errors.ts";
import { Nft, NftRefusedError } from "../../kernel/nft.ts";
import { probeFeatures } from "../../kernel/probe.ts";
import type { ServicePort } from "../../model/service-port.ts";
import { rebuildTransaction } from "../../nft/transaction.ts";
import type { NodeContext } from "../../ruleset/node-context.ts";
import { RulesetState } from "../../ruleset/ruleset-state.ts";
import type { ServicePortRules } from "../../ruleset/service-port-rules.ts";
import { isolate } from "../../sync/quarantine.ts";

/** What the kernel says of a ruleset. */
export type KernelVerdict =
  | { readonly kind: "accepted"; readonly nft: string }
  | {
      readonly kind: "refused";
      readonly nft: string;
      readonly reason: string;
      readonly culprits: readonly ServicePort[];
    }
  /** It could not be asked, for this reason; `hint` says what would help. */
  | { readonly kind: "not-asked"; readonly reason: string; readonly hint?: string };

/**
 * Asks the kernel in a network namespace of its own: without root, and without a look at the rules of this host.
 * @param path the nft program
 */
export async function askKernel(path: string, state: RulesetState, nodeContext: NodeContext): Promise<KernelVerdict> {
  const isRoot = process.getuid?.() === 0;
  const nft = new Nft({ path, through: ["unshare", ...(isRoot ? [] : ["--map-root-user"]), "--net"] });
  try {
    const version = await new Nft({ path }).version();
    await probeFeatures(nft);
    return await verdict(nft, version, state, nodeContext);
  } catch (error) {
    if (error instanceof AppError) return notAsked(error);
    throw error;
  }
}

async function verdict(
  nft: Nft,
  version: string,
  state: RulesetState,
  nodeContext: NodeContext,
): Promise<KernelVerdict> {
  const accepts = async (asked: RulesetState): Promise<NftRefusedError | undefined> => {
    try {
      await nft.check(rebuildTransaction(asked.ruleset));
      return undefined;
    } catch (error) {
      if (error instanceof NftRefusedError) return error;
      throw error;
    }
  };
  const refusal = await accepts(state);
  if (refusal === undefined) return { kind: "accepted", nft: version };
  const attempt = async (selection: readonly ServicePortRules[]) =>
    (await accepts(stateOf(nodeContext, selection))) === undefined;
  const all = Object.values(state.families).flatMap((family) => [...family.allServicePortRules()]);
  const culprits = (await attempt([])) ? await isolate(all, attempt) : [];
  return { kind: "refused", nft: version, reason: refusal.stderr.trim(), culprits: culprits.map(({ port }) => port) };
}

function stateOf(nodeContext: NodeContext, rules: readonly ServicePortRules[]): RulesetState {
  const state = new RulesetState(nodeContext);
  for (const each of rules) state.families[each.port.family]?.put(each);
  return state;
}

function notAsked({ message, hint, evidence }: AppError): KernelVerdict {
  const said = evidence.stderr ?? "";
  if (/unshare/.test(`${message} ${said}`)) {
    const why = said === "" ? message : said;
    return {
      kind: "not-asked",
      reason: `cannot make a network namespace to ask in: ${why}`,
      hint: "run as root, or let users make namespaces",
    };
  }
  return { kind: "not-asked", reason: message, ...(hint === undefined ? {} : { hint }) };
}
