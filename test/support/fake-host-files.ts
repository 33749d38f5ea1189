import type { HostFiles } from "../../src/kernel/host.ts";

/** Returns a system error as node:fs throws it. */
function systemError(code: string): NodeJS.ErrnoException {
  return Object.assign(new Error(`${code}: refused`), { code });
}

/**
 * Files in memory. Writing a path in `refuses` rejects with that code. A path that is not in `texts` is
 * absent.
 */
export class FakeHostFiles implements HostFiles {
  readonly texts: Map<string, string>;
  readonly refuses: ReadonlyMap<string, string>;

  constructor(texts: Readonly<Record<string, string>>, refuses: Readonly<Record<string, string>> = {}) {
    this.texts = new Map(Object.entries(texts));
    this.refuses = new Map(Object.entries(refuses));
  }

  async read(path: string): Promise<string> {
    const text = this.texts.get(path);
    if (text === undefined) throw systemError("ENOENT");
    return text;
  }

  async write(path: string, text: string): Promise<void> {
    await this.read(path);
    const refusal = this.refuses.get(path);
    if (refusal !== undefined) throw systemError(refusal);
    this.texts.set(path, text);
  }

  async *lines(path: string): AsyncIterable<string> {
    yield* (await this.read(path)).split("\n");
  }
}
