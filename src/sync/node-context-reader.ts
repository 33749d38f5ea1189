import type { ObjectCache } from "../model/object-cache.ts";
import type { NodeContext } from "../ruleset/node-context.ts";
import type { CurrentOptions } from "./current-options.ts";
import { type HostView, nodeContextOf } from "./node-context.ts";

/** Parts of a {@link NodeContextReader}. */
export interface NodeContextReaderParts {
  readonly options: CurrentOptions;
  readonly cache: ObjectCache;
  readonly host: HostView;
  /** Reads the host again, whose addresses may have changed. */
  readonly readHost: () => Promise<HostView>;
}

/** Makes the node context of the current options, our Node object and the host as it was last read. */
export class NodeContextReader {
  readonly #parts: NodeContextReaderParts;
  #host: HostView;

  constructor(parts: NodeContextReaderParts) {
    this.#parts = parts;
    this.#host = parts.host;
  }

  /** The node context at this moment. */
  current(): NodeContext {
    return nodeContextOf(this.#parts.options.value, this.#parts.cache, this.#host);
  }

  /** Reads the host again. @throws AppError HOST when it cannot be read */
  async refresh(): Promise<void> {
    this.#host = await this.#parts.readHost();
  }
}
