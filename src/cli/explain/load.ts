import { AppError } from "../../base/errors.ts";
import type { ProxyOptions } from "../../config/options.ts";
import { localAddresses } from "../../kernel/addresses.ts";
import { hostFiles } from "../../kernel/host.ts";
import { Nft } from "../../kernel/nft.ts";
import { rememberedClient } from "../../kernel/remembered-client.ts";
import { loadBalancersAddresses, passedOverService } from "../../kube/passed-over-service.ts";
import { FAMILIES } from "../../model/family.ts";
import { familyOf } from "../../model/ip.ts";
import { joinParts } from "../../nft/elements.ts";
import { FRONTEND_MAPS } from "../../ruleset/sets.ts";
import { writtenBy } from "../check/findings.ts";
import { type Argv, isSet, listArgument } from "../command.ts";
import { type Desired, loadFromFiles, renderObjects } from "../desired.ts";
import { kernelNow } from "../kernel-now.ts";
import { commandOptions, nodeNameOf } from "../options.ts";
import { problemText } from "../problems.ts";
import { clusterObjectsNow } from "../sources.ts";
import type { Asked } from "./arguments.ts";
import { type LiveRules, type Situation, situationOf } from "./situation.ts";

/** A situation, and what to tell the user of how it was come by. */
export interface LoadedSituation {
  readonly situation: Situation;
  readonly notices: readonly string[];
}

type Loaded = Pick<Situation, "world" | "contexts" | "state" | "passedOver" | "loadBalancers"> & {
  readonly options: ProxyOptions;
  readonly notices: readonly string[];
  /** False when nothing is known of the objects. */
  readonly comparable: boolean;
};

/**
 * Reads the objects from files or the cluster; with `--live` also the kernel, for which the objects may be missing.
 * @throws AppError as reading does; NFT_OUTPUT for tables that are not ours to read
 */
export async function loadSituation(argv: Argv, asked: Asked): Promise<LoadedSituation> {
  const isLive = isSet(argv, "live");
  const { notices, options, comparable, ...parts } =
    listArgument(argv, "from").length > 0 ? await fromFiles(argv) : await fromCluster(argv, isLive);
  const hostAddresses = (await Promise.all(FAMILIES.map((family) => localAddresses(family, hostFiles)))).flat();
  const live = isLive ? { live: { comparable, ...(await fromKernel(options, asked)) } } : {};
  return { situation: situationOf({ ...parts, hostAddresses, ...live }), notices };
}

async function fromKernel(options: ProxyOptions, asked: Asked): Promise<Pick<LiveRules, "ruleset" | "remembered">> {
  const ruleset = await kernelNow(options);
  if (asked.kind === "service" || asked.question.fromAddress === undefined) return { ruleset, remembered: [] };
  const { fromAddress, to, protocol, port } = asked.question;
  const nft = new Nft({ path: options.nftPath });
  const { service, nodeport } = FRONTEND_MAPS;
  const found = await Promise.all([
    rememberedClient(nft, familyOf(to), service.affinity, joinParts(fromAddress, to, protocol, port)),
    rememberedClient(nft, familyOf(to), nodeport.affinity, joinParts(fromAddress, protocol, port)),
  ]);
  return { ruleset, remembered: found.flatMap((one) => one ?? []) };
}

async function fromFiles(argv: Argv): Promise<Loaded> {
  const { files, notices, ...desired } = await loadFromFiles(argv, { thorough: true });
  const written = [...files.objects.services, ...files.ignored].map((service) => writtenBy(service));
  return {
    ...loaded(desired, written),
    notices: [...notices, ...files.problems.map(problemText)],
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
  { options, world, contexts, state }: Omit<Desired, "problems" | "notices">,
  written: readonly unknown[],
): Omit<Loaded, "notices" | "comparable"> {
  const passedOver = written.flatMap((service) => passedOverService(service) ?? []);
  return { options, world, contexts, state, passedOver, loadBalancers: written.flatMap(loadBalancersAddresses) };
}
