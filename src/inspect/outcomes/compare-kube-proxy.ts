import { AppError, badArgument } from "../../base/errors.ts";
import { FAMILIES, FAMILY_NAMES, type Family } from "../../base/family.ts";
import { hostAddresses } from "../../kernel/addresses.ts";
import { hostFiles } from "../../kernel/host.ts";
import { nftProgram } from "../../kernel/nft.ts";
import { listTableOf } from "../../kernel/nft-listings.ts";
import { readText } from "../../kube/files/read-text.ts";
import type { AnySet, AnyTable } from "../../nft/ast/any-table.ts";
import { anyTables } from "../../nft/canonical/any-tables.ts";
import { joinParts, verdictTarget } from "../../nft/elements.ts";
import { parseFrontendKey } from "../../ruleset/keys.ts";
import { hostOf } from "../explain/explain-input.ts";
import { loadDesired } from "../load/desired.ts";
import { liveTables } from "../load/kernel-tables.ts";
import type { LoadRequest } from "../load/load-request.ts";
import { compareOutcomes, type OutcomeReport, ownerName, portName } from "./compare-outcomes.ts";
import type { ComparedFrontend } from "./frontends.ts";

const KUBE_PROXY = "kube-proxy";
const LISTING_HINT = "pass to --with-tables the output of: nft -j list table ip kube-proxy";

/**
 * Compares the outcomes of connections under kube-proxy's tables (nftables mode) and nft-proxy's.
 * @param listings files of `nft -j list table ip kube-proxy`; empty for this host's kernel
 * @param isLive true if nft-proxy's side is its tables in the kernel instead of those of the objects
 * @throws AppError BAD_ARGUMENT if kube-proxy has no tables; and as loading objects and reading tables do
 */
export async function compareWithKubeProxy(
  request: LoadRequest,
  listings: readonly string[],
  isLive: boolean,
): Promise<OutcomeReport> {
  const { state, cache, nodeContext, diagnostics, notices } = await loadDesired({
    ...request,
    ejectsNothing: true,
  });
  const theirs = (await kubeProxyTables(listings, request)).map(withoutClients);
  const families = FAMILIES.filter((family) => theirs.some((table) => table.family === family));
  const own = Object.values(isLive ? (await liveTables(request)).ruleset : state.ruleset);
  const { local } = await hostAddresses(hostFiles);
  const host = hostOf(nodeContext, local);
  const comparison = compareOutcomes(
    { tables: theirs, host },
    { tables: own.filter(({ family }) => families.includes(family)), host },
    nodeContext,
    cache.node.podCIDRs,
  );
  return {
    ...comparison,
    differences: comparison.differences.map((difference) => ({
      ...difference,
      service: ownerName(state, difference.frontend) ?? theirName(theirs, difference.frontend),
    })),
    sides: [KUBE_PROXY, isLive ? "nft-proxy (kernel)" : "nft-proxy (desired)"],
    diagnostics,
    notices: [
      ...notices,
      ...FAMILIES.filter((family) => !families.includes(family)).map(
        (family) =>
          `note: there is no table ${family} ${KUBE_PROXY}: ${FAMILY_NAMES[family]} is not compared`,
      ),
    ],
  };
}

async function kubeProxyTables(
  listings: readonly string[],
  { stdin, options: { nftPath } }: LoadRequest,
): Promise<readonly AnyTable[]> {
  const nft = nftProgram({ path: nftPath });
  const listed = async (family: Family) => {
    const listing = await listTableOf(nft, { family, name: KUBE_PROXY }, "json");
    return listing === undefined ? [] : anyTables(listing);
  };
  const read = listings.length > 0 ? listings.map((file) => tablesOf(file, stdin)) : FAMILIES.map(listed);
  const tables = (await Promise.all(read)).flat().filter(({ name }) => name === KUBE_PROXY);
  if (tables.length > 0) return tables;
  throw badArgument(`there is no table "${KUBE_PROXY}" ${listings.length > 0 ? "in the listing" : "here"}`, {
    hint: `kube-proxy creates it in nftables mode; ${LISTING_HINT}`,
  });
}

/**
 * Reads the tables of a file. @throws AppError BAD_ARGUMENT if it is not a listing of nft; UNREADABLE_INPUT
 */
async function tablesOf(file: string, stdin: LoadRequest["stdin"]): Promise<readonly AnyTable[]> {
  const text = await readText(file, stdin);
  try {
    return anyTables(text);
  } catch (cause) {
    if (!(cause instanceof AppError && cause.code === "NFT_OUTPUT")) throw cause;
    throw badArgument(`${file} is not a listing of nft as JSON`, { cause, hint: LISTING_HINT });
  }
}

/** Removes the current clients of session affinity: both sides start with a new client. */
function withoutClients(table: AnyTable): AnyTable {
  const sets = [...table.sets].map(([name, set]): [string, AnySet] => [
    name,
    set.spec.dynamic ? { spec: set.spec, elements: new Map() } : set,
  ]);
  return { ...table, sets: new Map(sets) };
}

/** kube-proxy names chains `service-HASH-namespace/name/protocol/port`. */
function theirName(tables: readonly AnyTable[], { family, key }: ComparedFrontend): string | undefined {
  const own = tables.find((table) => table.family === family);
  const { address, protocol, port } = parseFrontendKey(key);
  const [map, theirKey] =
    address === undefined ? ["service-nodeports", joinParts(protocol, port)] : ["service-ips", key];
  const target = verdictTarget(own?.sets.get(map)?.elements.get(theirKey) ?? "");
  const [, namespace, name, , portOf] =
    /^[a-z]+-[A-Z2-7]{8}-([^/]+)\/([^/]+)\/([^/]+)\/(.*)$/.exec(target ?? "") ?? [];
  return namespace === undefined ? undefined : portName(`${namespace}/${name}`, portOf ?? "");
}
