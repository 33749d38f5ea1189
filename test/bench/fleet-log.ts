import type { ApiRequest } from "../../src/kube/client/client.ts";

/** The requests of all nodes in one second. */
export interface FleetSecond {
  /** Requests, including unanswered ones. */
  requests: number;
  lists: number;
  /** The nodes that listed something. */
  readonly listing: Set<number>;
}

/** The peaks over some seconds. */
export interface FleetPeaks {
  readonly requests: number;
  readonly lists: number;
  /** The number of nodes that listed something in one second. */
  readonly listing: number;
}

/** Counts the requests of many nodes for each second. */
export class FleetLog {
  /** The titles and first seconds of the chapters. */
  readonly chapters: { readonly title: string; readonly at: number }[] = [];
  readonly seconds: FleetSecond[] = [];
  /** The number of requests of each node. */
  readonly attempts: number[] = [];
  readonly #now: () => number;

  /** @param now returns milliseconds since the beginning */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** Begins a chapter. Returns the second in which it begins. */
  begin(title: string): number {
    const at = Math.floor(this.#now() / 1000);
    this.chapters.push({ title, at });
    return at;
  }

  /** Counts a request of a node. */
  request(node: number, { path, query = {} }: ApiRequest): void {
    const current = this.#second();
    current.requests += 1;
    this.attempts[node] = (this.attempts[node] ?? 0) + 1;
    if (query.watch !== undefined || path === "/version") return;
    current.lists += 1;
    current.listing.add(node);
  }

  /** Returns the peaks since a second. */
  peaks(from: number): FleetPeaks {
    const most = (of: (second: FleetSecond) => number) => Math.max(0, ...this.seconds.slice(from).map(of));
    return {
      requests: most(({ requests }) => requests),
      lists: most(({ lists }) => lists),
      listing: most(({ listing }) => listing.size),
    };
  }

  #second(): FleetSecond {
    const at = Math.floor(this.#now() / 1000);
    while (this.seconds.length <= at) this.seconds.push({ requests: 0, lists: 0, listing: new Set() });
    return this.seconds[at] as FleetSecond;
  }
}
