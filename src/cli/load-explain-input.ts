import { AppError } from "../base/errors.ts";
import { FAMILIES } from "../base/family.ts";
import type { ProxyOptions } from "../config/options.ts";
import { writtenBy } from "../inspect/check/diagnostics.ts";
import { type ExplainInput, explainInputOf, type LiveRules } from "../inspect/explain/explain-input.ts";
import type { ExplainQuery } from "../inspect/explain/query.ts";
import { localAddresses } from "../kernel/addresses.ts";
import { affinityEntry } from "../kernel/affinity-entry.ts";
import { hostFiles } from "../kernel/host.ts";
import { Nft } from "../kernel/nft.ts";
import { ignoredService, loadBalancersAddresses } from "../kube/decode/ignored-service.ts";
import { familyOf } from "../model/ip.ts";
import { joinParts } from "../nft/elements.ts";
import { FRONTEND_MAPS } from "../ruleset/sets.ts";
import { type Argv, isSet, listArgument } from "./command.ts";
import { type Desired, loadFromFiles, renderObjects } from "./desired.ts";
import { kernelNow } from "./kernel-now.ts";
import { commandOptions, nodeNameOf } from "./options.ts";
import { diagnosticText } from "./print/diagnostic-text.ts";
import { clusterObjectsNow } from "./sources.ts";

/** A input, and what to tell the user of how it was come by. */
export interface LoadedExplainInput {
  readonly input: ExplainInput;
  readonly notices: readonly string[];
}

type Loaded = Pick<ExplainInput, "cache" | "nodeContext" | "state" | "ignored" | "loadBalancers"> & {
  readonly options: ProxyOptions;
  readonly notices: readonly string[];
  /** False when nothing is known of the objects. */
  readonly comparable: boolean;
};

/**
 * Reads the objects from files or the cluster; with `--live` also the kernel, for which the objects may be missing.
 * @throws AppError as reading does; NFT_OUTPUT for tables that are not ours to read
 */
export async function loadExplainInput(argv: Argv, asked: ExplainQuery): Promise<LoadedExplainInput> {
  const isLive = isSet(argv, "live");
  const { notices, options, comparable, ...parts } =
    listArgument(argv, "from").length > 0 ? await fromFiles(argv) : await fromCluster(argv, isLive);
  const hostAddresses = (await Promise.all(FAMILIES.map((family) => localAddresses(family, hostFiles)))).flat();
  const live = isLive ? { live: { comparable, ...(await fromKernel(options, asked)) } } : {};
  return { input: explainInputOf({ ...parts, hostAddresses, ...live }), notices };
}

async function fromKernel(
  options: ProxyOptions,
  asked: ExplainQuery,
): Promise<Pick<LiveRules, "ruleset" | "remembered">> {
  const ruleset = await kernelNow(options);
  if (asked.kind === "service" || asked.question.fromAddress === undefined) return { ruleset, remembered: [] };
  const { fromAddress, to, protocol, port } = asked.question;
  const nft = new Nft({ path: options.nftPath });
  const { service, nodeport } = FRONTEND_MAPS;
  const found = await Promise.all([
    affinityEntry(nft, familyOf(to), service.affinity, joinParts(fromAddress, to, protocol, port)),
    affinityEntry(nft, familyOf(to), nodeport.affinity, joinParts(fromAddress, protocol, port)),
  ]);
  return { ruleset, remembered: found.flatMap((one) => one ?? []) };
}

async function fromFiles(argv: Argv): Promise<Loaded> {
  const { files, notices, ...desired } = await loadFromFiles(argv, { thorough: true });
  const written = [...files.objects.services, ...files.ignored].map((service) => writtenBy(service));
  return {
    ...loaded(desired, written),
    notices: [...notices, ...files.problems.map(diagnosticText)],
    comparable: true,
  };
}

async function fromCluster(argv: Argv, isLive: boolean): Promise<Loaded> {
  const { options, notices } = commandOptions(argv);
  const written: unknown[] = [];
  const said = [...notices];
  const keep = (service: unknown) => written.push(service);
  try {
    const objects = await clusterObjectsNow(options, nodeNameOf(options), (text) => said.push(text), keep);
    return { ...loaded(await renderObjects(options, objects), written), notices: said, comparable: true };
  } catch (error) {
    if (!isLive || !(error instanceof AppError)) throw error;
    const nothing = { services: [], endpointSlices: [], nodes: [], serviceCIDRs: [] };
    said.push(`warning: by the kernel's rules alone, without names and reasons: ${error.message}`);
    return { ...loaded(await renderObjects(options, nothing), []), notices: said, comparable: false };
  }
}

function loaded(
  { options, cache, nodeContext, state }: Omit<Desired, "problems" | "notices">,
  written: readonly unknown[],
): Omit<Loaded, "notices" | "comparable"> {
  const ignored = written.flatMap((service) => ignoredService(service) ?? []);
  return { options, cache, nodeContext, state, ignored, loadBalancers: written.flatMap(loadBalancersAddresses) };
}
