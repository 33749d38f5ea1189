import type { Nft } from "../../src/kernel/nft.ts";

/** An nft whose methods a test provides. All others fail. */
export function stubNft(methods: Partial<Nft>): Nft {
  const unexpected = () => {
    throw new Error("nft was not expected to be called");
  };
  return {
    path: "nft",
    commits: 0,
    apply: unexpected,
    check: unexpected,
    list: unexpected,
    stopReading: () => {},
    ...methods,
  };
}
