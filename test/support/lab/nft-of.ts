import { type Nft, nftProgram } from "../../../src/kernel/nft.ts";
import type { Lab } from "./lab.ts";

/** Runs the nft of a lab's node as if it were this process's own. */
export function nftOf(lab: Lab): Nft {
  return nftProgram({
    path: "nft",
    run: async (path, args, input) => {
      const { exitCode, stdout, stderr } = await lab.exec([path, ...args], { input });
      const ended = {
        signal: undefined,
        startError: undefined,
        timedOut: false,
        tooMuchOutput: false,
        aborted: false,
        durationMs: 0,
      };
      return { exitCode, stdout, stderr, ...ended };
    },
  });
}
