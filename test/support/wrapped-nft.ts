import type { DaemonLab } from "./daemon-lab.ts";

/** A program that is nft but for what these lines of shell do first. @returns its path */
export async function wrappedNft(lab: DaemonLab, name: string, lines: string): Promise<string> {
  const path = await lab.file(name, `#!/bin/sh\n${lines}\nexec nft "$@"\n`);
  await lab.lab.exec(["chmod", "+x", path]);
  return path;
}
