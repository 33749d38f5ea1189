import type { ApiClient, ApiRequest, ApiResponse } from "../../src/kube/client/client.ts";
import { ManualClock } from "../support/manual-clock.ts";
import { pause } from "./programs.ts";

/** Step by which time advances, milliseconds. */
const STEP = 50;
/** Real time until clients have noticed broken connections, milliseconds. */
const NOTICED = 500;

/**
 * Time that stands still while requests are in flight, so that the machine's speed does not affect the
 * simulation.
 */
export class VirtualTime {
  readonly clock = new ManualClock();
  #underWay = 0;

  /**
   * Returns a client for whose requests time waits: for lists until their end, for watches until they are
   * open.
   */
  client(client: ApiClient): Pick<ApiClient, "request" | "closeIdle"> {
    return {
      closeIdle: () => client.closeIdle(),
      request: (request) => this.#request(client, request),
    };
  }

  /** Waits in real time until clients have noticed connections that the server broke. */
  async settle(): Promise<void> {
    await pause(NOTICED);
    await this.#quiet();
  }

  /** Lets time pass, at most until `isOver`. Returns the milliseconds that have passed. */
  async pass(milliseconds: number, isOver: () => boolean = () => false): Promise<number> {
    const began = this.clock.monotonic();
    while (this.clock.monotonic() - began < milliseconds && !isOver()) {
      this.clock.advance(STEP);
      await this.#quiet();
    }
    return this.clock.monotonic() - began;
  }

  async #quiet(): Promise<void> {
    do {
      for (let n = 0; n < 3; n++) await new Promise((resolve) => setImmediate(resolve));
    } while (this.#underWay > 0);
  }

  async #request(client: ApiClient, request: ApiRequest): Promise<ApiResponse> {
    this.#underWay += 1;
    let answer: ApiResponse;
    try {
      answer = await client.request(request);
    } catch (error) {
      this.#underWay -= 1;
      throw error;
    }
    if (request.query?.watch === undefined || answer.status !== 200)
      return { ...answer, body: this.#counted(answer.body) };
    this.#underWay -= 1;
    return answer;
  }

  async *#counted(body: ApiResponse["body"]): ApiResponse["body"] & AsyncGenerator<Uint8Array> {
    try {
      yield* body;
    } finally {
      this.#underWay -= 1;
    }
  }
}
