import type { ServerResponse } from "node:http";
import type { Selectors } from "./selectors.ts";

/** A watch event as sent. */
export interface WireEvent {
  readonly type: string;
  readonly object: unknown;
}

/** The server's end of an open watch. */
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

  /** Sends raw bytes, such as broken JSON, half a line or two lines in one. */
  sendRaw(text: string | Uint8Array): void {
    // An ended watch stays in the list until its connection is closed. The next watch gets the changes in
    // between.
    if (!this.#muted && !this.#response.writableEnded) this.#response.write(text);
  }

  /** Ends the watch as an API server does after `timeoutSeconds`. */
  end(): void {
    this.#response.end();
  }

  /** Resets the connection. */
  reset(): void {
    this.#response.socket?.resetAndDestroy();
  }

  /** Discards everything sent from now on, as if the network lost it. The connection stays open. */
  mute(): void {
    this.#muted = true;
  }

  /** Sends again. Discarded events are lost. */
  unmute(): void {
    this.#muted = false;
  }
}
