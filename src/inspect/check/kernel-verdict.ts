import { AppError } from "../../base/errors.ts";
import { type Nft, nftProgram } from "../../kernel/nft.ts";
import { NftRefusedError } from "../../kernel/nft-errors.ts";
import { nftVersion } from "../../kernel/nft-listings.ts";
import { probeFeatures } from "../../kernel/probe.ts";
import type { ServicePort } from "../../model/service-port.ts";
import type { Ruleset } from "../../nft/ast/ruleset.ts";
import { rebuildTransaction } from "../../nft/transaction.ts";
import type { NodeContext } from "../../ruleset/node-context.ts";
import { partFeatures, requiredFeatures } from "../../ruleset/required-features.ts";
import type { RulesetState } from "../../ruleset/ruleset-state.ts";
import { findRefused } from "../../sync/quarantine.ts";

/** The kernel's verdict on a ruleset. */
export type KernelVerdict =
  | { readonly kind: "accepted"; readonly nft: string }
  | {
      readonly kind: "refused";
      readonly nft: string;
      readonly reason: string;
      readonly culprits: readonly ServicePort[];
    }
  /** The kernel could not check it, for this reason; `hint` is the remedy. */
  | { readonly kind: "not-asked"; readonly reason: string; readonly hint?: string | undefined };

/**
 * Lets the kernel check the rules in a new network namespace: this needs no root, and does not depend on the
 * host's rules.
 * @param path the nft program
 */
export async function askKernel(
  path: string,
  state: RulesetState,
  nodeContext: NodeContext,
): Promise<KernelVerdict> {
  const isRoot = process.getuid?.() === 0;
  const nft = nftProgram({ path, through: ["unshare", ...(isRoot ? [] : ["--map-root-user"]), "--net"] });
  try {
    const version = await nftVersion(nftProgram({ path }));
    await probeFeatures(nft, requiredFeatures());
    for (const part of nodeContext[0]?.features ?? [])
      if (part.needs && Object.values(state.families).some((family) => family.hasPart(part)))
        await probeFeatures(nft, partFeatures(part, part.needs));
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
  const refusalOf = (ruleset: Ruleset) =>
    nft.check(rebuildTransaction(ruleset)).then(
      () => undefined,
      (error: unknown) => {
        if (error instanceof NftRefusedError) return error;
        throw error;
      },
    );
  const refusal = await refusalOf(state.ruleset);
  if (refusal === undefined) return { kind: "accepted", nft: version };
  const rules = Object.values(state.families).flatMap((family) => [...family.allServicePortRules()]);
  const culprits = await findRefused({
    nodeContext,
    accepted: [],
    suspects: rules.map((after) => ({ key: after.port.key, before: undefined, after })),
    accepts: async (ruleset) => (await refusalOf(ruleset)) === undefined,
  });
  const ports = culprits.flatMap(({ after }) => after?.port ?? []);
  return { kind: "refused", nft: version, reason: refusal.stderr.trim(), culprits: ports };
}

function notAsked({ message, hint, evidence: { stderr = "" } }: AppError): KernelVerdict {
  if (!/unshare/.test(`${message} ${stderr}`)) return { kind: "not-asked", reason: message, hint };
  const reason = `cannot create a network namespace for the check: ${stderr || message}`;
  return { kind: "not-asked", reason, hint: "run as root, or allow users to create namespaces" };
}
