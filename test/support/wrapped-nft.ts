import type { DaemonLab } from "./daemon-lab.ts";

/**
 * Makes a program that runs these shell lines first, and is otherwise nft. Lines that read nft's input must
 * end with nft's exit code: the daemon does not start with an nft that accepts everything.
 * @returns its path
 */
export async function wrappedNft(lab: DaemonLab, name: string, lines: string): Promise<string> {
  const path = await lab.file(name, `#!/bin/sh\n${lines}\nexec nft "$@"\n`);
  await lab.lab.exec(["chmod", "+x", path]);
  return path;
}
