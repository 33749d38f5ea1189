import type { ProxyOptions } from "../config/options.ts";

/** The options in force. Whatever follows a reload of the configuration reads them here each time it needs them. */
export class CurrentOptions {
  #value: ProxyOptions;

  constructor(options: ProxyOptions) {
    this.#value = options;
  }

  get value(): ProxyOptions {
    return this.#value;
  }

  /** Replaces them, after {@link planReload} decided which changes can take effect. */
  set(options: ProxyOptions): void {
    this.#value = options;
  }
}
