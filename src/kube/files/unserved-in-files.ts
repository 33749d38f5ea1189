import { messageOf } from "../../base/errors.ts";
import { type UnservedServices, unservedAmong } from "../decode/ignored-service.ts";
import { type FilesResult, writtenBy } from "./object-gatherer.ts";
import { NO_INPUT, readFiles } from "./read-files.ts";

/** The Services of some files as they are written there, those that are ignored too. The documents must have been kept. */
export function writtenServices({ objects, ignored }: FilesResult): unknown[] {
  return [...objects.services, ...ignored].map((service) => writtenBy(service));
}

/** Reads the Services that nft-proxy does not serve from files. Never rejects. */
export async function unservedInFiles(paths: readonly string[]): Promise<UnservedServices> {
  try {
    return unservedAmong(writtenServices(await readFiles(paths, NO_INPUT, { thorough: true })));
  } catch (error) {
    return { ignored: [], loadBalancers: [], problem: messageOf(error) };
  }
}
