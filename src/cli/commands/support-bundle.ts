import { AppError, badArgument, messageOf } from "../../base/errors.ts";
import { counted, listText } from "../../base/text.ts";
import { writePrivateFile } from "../../daemon/state-file.ts";
import { listClusterObjects } from "../../inspect/load/load-objects.ts";
import { archiveOf, bundleNames, collectBundle } from "../../inspect/support-bundle/collect.ts";
import { clusterNames, collectCluster } from "../../inspect/support-bundle/collect-cluster.ts";
import { type BundleFile, redactor } from "../../inspect/support-bundle/redact.ts";
import { systemClock } from "../../kernel/system-clock.ts";
import { type Argv, isSet, type Reporter, textArgument } from "../command.ts";
import type { CommandResult } from "../command-result.ts";
import { requestBesideDaemon } from "../options.ts";
import { fleetRequest } from "./fleet.ts";

/**
 * `support-bundle`: writes one archive for a bug report to a file that only its owner can read, or to
 * standard output (`-`); with `--cluster` about all nodes. `--redact` replaces names and addresses with
 * pseudonyms.
 */
export async function run(argv: Argv, reporter: Reporter): Promise<CommandResult> {
  if (textArgument(argv, "file") === "-" && process.stdout.isTTY) {
    throw new AppError("BAD_ARGUMENT", "the archive is binary, and standard output is a terminal", {
      hint: "redirect it to a file: nft-proxy support-bundle - > bundle.tar.gz",
    });
  }
  const isRedacted = isSet(argv, "redact");
  const collect = isSet(argv, "cluster") ? ofCluster : ofNode;
  for (const flag of ["context", "namespace", "selector"]) {
    if (textArgument(argv, flag) !== undefined && collect === ofNode)
      throw badArgument(`--${flag} needs --cluster`);
  }
  reporter.step("collecting");
  const bundle = await collect(argv, isRedacted, reporter);
  const redact = bundle.names === undefined ? (text: string) => text : redactor(...bundle.names);
  const now = systemClock.now();
  const archive = archiveOf(redacted(bundle.files, redact), now);
  const path = textArgument(argv, "file") ?? defaultPath(isRedacted ? "redacted" : bundle.about, now);
  const hint = "name another path; - writes to standard output, as for kubectl exec";
  if (path !== "-") writePrivateFile(path, archive, hint);
  if (!isRedacted)
    reporter.notice(["note: the archive names Services, pods and addresses; --redact replaces them"]);
  return { output: path === "-" ? archive : `wrote ${path}\n` };
}

function* redacted(files: Iterable<BundleFile>, redact: (text: string) => string): Iterable<BundleFile> {
  // The names of folders are those of nodes, those of files are ours.
  for (const { name, text } of files)
    yield { name: name.replace(/(?<=\/)[^/]+(?=\/)/, redact), text: redact(text) };
}

/** Collects the files of this node, its name, and the names to redact, if any. */
async function ofNode(argv: Argv, isRedacted: boolean, reporter: Reporter) {
  const { daemon, options, socketProblem, nodeName } = await requestBesideDaemon(argv, reporter, {
    isDiagnosis: true,
  });
  const request = { options, nodeName, version: __VERSION__, daemon, socketProblem };
  const bundle = await collectBundle(request);
  reporter.notice(bundle.notices);
  const hint = 'run it again; with --daemon-socket="" the archive omits the data of the daemon';
  return {
    about: nodeName,
    files: bundle.files,
    names: isRedacted ? await known(bundleNames(request, bundle), hint) : undefined,
  };
}

/** Maximum number of nodes without data that are named; fleet.json has all of them. */
const MOST_NODES = 10;

/** As {@link ofNode}, but of all nodes. */
async function ofCluster(argv: Argv, isRedacted: boolean, reporter: Reporter) {
  const { request, load } = await fleetRequest(argv, reporter);
  try {
    const bundle = await collectCluster(request);
    const silent = bundle.nodes.filter(({ state }) => state === "no-pod" || state === "unreachable");
    const named = listText(
      silent.map(({ node, state }) => `${node} (${state})`),
      MOST_NODES,
    );
    if (silent.length > 0)
      reporter.notice([
        `warning: no answer of ${counted(silent.length, "node")}: ${named}; fleet.json has the reasons`,
      ]);
    const names = async () => clusterNames(bundle, await listClusterObjects(load));
    const hint = "these credentials must be allowed to list services, endpointslices, nodes and servicecidrs";
    return {
      about: "cluster",
      files: bundle.files(),
      names: isRedacted ? await known(names(), hint) : undefined,
    };
  } finally {
    request.client.close();
  }
}

async function known<Names>(names: Promise<Names>, hint: string): Promise<Names> {
  try {
    return await names;
  } catch (error) {
    const why = `the names of the cluster's objects are unknown: ${messageOf(error)}`;
    throw new AppError("HOST", `cannot redact, because ${why}`, { hint });
  }
}

/** `nft-proxy-support-node-1-20261121T100000Z.tar.gz` */
function defaultPath(nodeName: string, now: number): string {
  const time = new Date(now).toISOString().replace(/[-:]|\.\d+/g, "");
  return `nft-proxy-support-${nodeName}-${time}.tar.gz`;
}
