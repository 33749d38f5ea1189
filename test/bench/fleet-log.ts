import type { ApiRequest } from "../../src/kube/client/client.ts";

/** What all nodes did in one second. */
export interface FleetSecond {
  /** Requests, answered or not. */
  requests: number;
  lists: number;
  /** The nodes that listed something. */
  readonly listing: Set<number>;
}

/** The peaks of some seconds. */
export interface FleetPeaks {
  readonly requests: number;
  readonly lists: number;
  /** How many nodes listed something in one second. */
  readonly listing: number;
}

/** Counts the requests of many nodes by seconds. */
export class FleetLog {
  /** The titles and first seconds of the chapters. */
  readonly chapters: { readonly title: string; readonly at: number }[] = [];
  readonly seconds: FleetSecond[] = [];
  /** How many requests each node has sent. */
  readonly attempts: number[] = [];
  readonly #now: () => number;

  /** @param now milliseconds since the beginning */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** Begins a chapter. Returns the second in which it begins. */
  begin(title: string): number {
    const at = Math.floor(this.#now() / 1000);
    this.chapters.push({ title, at });
    return at;
  }

  /** Notes that a node sends a request. */
  request(node: number, { path, query = {} }: ApiRequest): void {
    const current = this.#second();
    current.requests += 1;
    this.attempts[node] = (this.attempts[node] ?? 0) + 1;
    if (query.watch !== undefined || path === "/version") return;
    current.lists += 1;
    current.listing.add(node);
  }

  /** The peaks since a second. */
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
