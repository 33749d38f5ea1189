import { text } from "node:stream/consumers";
import { StringDecoder } from "node:string_decoder";
import type { Clock, Timer } from "../../base/clock.ts";
import { ApiFailure, failureOfAnswer } from "./api-failure.ts";
import type { ApiClient, ApiRequest } from "./client.ts";

/** A request that is aborted when it takes too long, or when nothing is received. */
export class TimedRequest {
  readonly #controller = new AbortController();
  readonly #client: Pick<ApiClient, "request">;
  readonly #clock: Clock;
  readonly #onAnswer: () => void;
  #silence: number;
  #quiet: Timer | undefined;

  /**
   * @param silence milliseconds without data after which the request counts as hung
   * @param onAnswer called when the server has begun to answer, whatever the status
   */
  constructor(client: Pick<ApiClient, "request">, clock: Clock, silence: number, onAnswer = () => {}) {
    this.#client = client;
    this.#clock = clock;
    this.#onAnswer = onAnswer;
    this.#silence = silence;
  }

  /** Sets another time without data. */
  receivesWithin(milliseconds: number): void {
    this.#silence = milliseconds;
    this.#received();
  }

  abort(reason: Error): void {
    this.#controller.abort(reason);
  }

  /**
   * Sends the request, once, and calls `read` with the text of its answer as it arrives.
   * @param within milliseconds after which the request is aborted if it is not finished
   * @throws ApiFailure for an answer other than 200, or a missed deadline; and anything that the connection
   * or `read` throws
   */
  async get<T>(
    request: Pick<ApiRequest, "path" | "query">,
    within: number,
    read: (texts: AsyncIterable<string>) => Promise<T>,
  ): Promise<T> {
    const { signal } = this.#controller;
    const total = this.#after(within, `not finished after ${within} ms`);
    this.#received();
    try {
      const answer = await this.#client.request({ ...request, method: "GET", signal });
      this.#onAnswer();
      if (answer.status === 200) return await read(this.#textsOf(answer.body));
      // The text of an error is short. All of it must come in time, so that a retry is not delayed for long.
      throw failureOfAnswer(answer.status, answer.headers, await text(answer.body), this.#clock.now());
    } catch (error) {
      // A stream does not report the reason of an abort itself.
      throw signal.aborted ? signal.reason : error;
    } finally {
      total.cancel();
      this.#quiet?.cancel();
      this.abort(new ApiFailure("connection", "the request was closed"));
    }
  }

  async *#textsOf(body: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
    const utf8 = new StringDecoder("utf8");
    for await (const chunk of body) {
      this.#received();
      yield utf8.write(chunk);
    }
    yield utf8.end();
  }

  #received(): void {
    this.#quiet?.cancel();
    this.#quiet = this.#after(this.#silence, `nothing received for ${this.#silence} ms`);
  }

  #after(milliseconds: number, message: string): Timer {
    return this.#clock.after(milliseconds, () => this.abort(new ApiFailure("timeout", message)));
  }
}
