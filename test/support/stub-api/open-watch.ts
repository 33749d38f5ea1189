import type { ServerResponse } from "node:http";
import type { Selectors } from "./selectors.ts";

/** A watch event as it goes over the wire. */
export interface WireEvent {
  readonly type: string;
  readonly object: unknown;
}

/** A watch that a client holds open. Its methods are the ways in which a watch goes on, ends and breaks. */
export class OpenWatch {
  readonly selectors: Selectors;
  readonly #response: ServerResponse;
  #muted = false;

  constructor(response: ServerResponse, selectors: Selectors) {
    this.#response = response;
    this.selectors = selectors;
    response.writeHead(200, { "content-type": "application/json" });
    response.flushHeaders();
  }

  /** Sends an event as an API server does. */
  send(event: WireEvent): void {
    this.sendRaw(`${JSON.stringify(event)}\n`);
  }

  /** Bytes as they are: broken JSON, half a line, two lines in one. */
  sendRaw(text: string | Uint8Array): void {
    // A watch that has ended stays known until its connection is gone; what happens meanwhile is for the next one.
    if (!this.#muted && !this.#response.writableEnded) this.#response.write(text);
  }

  /** As an API server does when `timeoutSeconds` is over. */
  end(): void {
    this.#response.end();
  }

  /** The connection breaks. */
  reset(): void {
    this.#response.socket?.resetAndDestroy();
  }

  /** The connection stays, and nothing comes any more, as when the other end vanished without a word. */
  mute(): void {
    this.#muted = true;
  }

  /** Lets bytes through again; what was sent in between is lost. */
  unmute(): void {
    this.#muted = false;
  }
}
