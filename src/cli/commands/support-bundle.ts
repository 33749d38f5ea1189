import { AppError, messageOf } from "../../base/errors.ts";
import { writePrivateFile } from "../../daemon/state-file.ts";
import {
  archiveOf,
  type Bundle,
  type BundleRequest,
  bundleNames,
  collectBundle,
} from "../../inspect/support-bundle/collect.ts";
import { type NamesByKind, redactor } from "../../inspect/support-bundle/redact.ts";
import { systemClock } from "../../kernel/system-clock.ts";
import { type Argv, isSet, textArgument } from "../command.ts";
import { nodeNameOf, optionsDespiteDaemon } from "../options.ts";
import { type CommandResult, EXIT } from "../output.ts";
import type { Progress } from "../terminal.ts";

/**
 * `support-bundle`: writes one archive for a bug report to a file that only its owner can read, or to
 * standard output (`-`). `--redact` replaces names and addresses with pseudonyms.
 */
export async function run(argv: Argv, progress: Progress): Promise<CommandResult> {
  if (textArgument(argv, "file") === "-" && process.stdout.isTTY) {
    throw new AppError("BAD_ARGUMENT", "the archive is binary, and standard output is a terminal", {
      hint: "redirect it to a file: nft-proxy support-bundle - > bundle.tar.gz",
    });
  }
  const { daemon, options, socketProblem, ...command } = await optionsDespiteDaemon(argv);
  const nodeName = daemon?.state.nodeName ?? nodeNameOf(options);
  progress.step("collecting");
  const request = { options, nodeName, version: __VERSION__, daemon, socketProblem };
  const bundle = await collectBundle(request);
  const notices = [...command.notices, ...bundle.notices];
  const isRedacted = isSet(argv, "redact");
  const redact = isRedacted ? redactor(await names(request, bundle)) : (text: string) => text;
  const now = systemClock.now();
  const archive = archiveOf(
    bundle.files.map(({ name, text }) => ({ name, text: redact(text) })),
    now,
  );
  const path = textArgument(argv, "file") ?? defaultPath(isRedacted ? "redacted" : nodeName, now);
  const note = "note: the archive names Services, pods and addresses; --redact replaces them";
  if (!isRedacted) notices.push(note);
  if (path === "-") return { exitCode: EXIT.ok, output: archive, notices };
  writePrivateFile(path, archive, "name another path; - writes to standard output, as for kubectl exec");
  return { exitCode: EXIT.ok, output: `wrote ${path}\n`, notices };
}

async function names(request: BundleRequest, bundle: Bundle): Promise<NamesByKind> {
  try {
    return await bundleNames(request, bundle);
  } catch (error) {
    throw new AppError(
      "HOST",
      `cannot redact, because the names of the cluster's objects are unknown: ${messageOf(error)}`,
      { hint: 'run it again; with --daemon-socket="" the archive omits the data of the daemon' },
    );
  }
}

/** `nft-proxy-support-node-1-20261121T100000Z.tar.gz` */
function defaultPath(nodeName: string, now: number): string {
  const time = new Date(now).toISOString().replace(/[-:]|\.\d+/g, "");
  return `nft-proxy-support-${nodeName}-${time}.tar.gz`;
}
