import { endianness } from "node:os";
import { messageOf } from "../../src/base/errors.ts";
import type { Family } from "../../src/base/family.ts";
import { type NetlinkListener, netlinkListener } from "../../src/kernel/netlink-listener.ts";
import { systemClock } from "../../src/kernel/system-clock.ts";
import type { NetlinkMessage } from "../../src/netlink/message.ts";
import { type SetSpec, TABLE_NAME } from "../../src/nft/ast/ruleset.ts";
import { encodedElement } from "./encoded-elements.ts";

/**
 * Returns how long something was missing, milliseconds. Undefined while it is missing, or if it has not been
 * missing yet.
 */
export type Absence = () => number | undefined;

type Match = (message: NetlinkMessage) => boolean;

/** The base chain that is added last when a table is created. */
const LAST_CHAIN = "nat-prerouting";

/** Measures how long deleted parts of our tables are missing, with the kernel's own notifications. */
export class KernelWatch {
  readonly #listener: NetlinkListener;
  readonly #listeners = new Set<(message: NetlinkMessage) => void>();

  private constructor(socat: string, onEnd: (reason: string) => void) {
    this.#listener = netlinkListener(
      systemClock,
      socat,
    )({
      onMessage: (message) => {
        for (const listener of this.#listeners) listener(message);
      },
      wantsElements: () => true,
      onHostChange: () => {},
      onEnd: (error) => onEnd(`the kernel's notifications ended: ${messageOf(error)}`),
    });
  }

  /**
   * Starts, and resolves when it receives notifications.
   * @param socat the program, or one that starts it in another network namespace
   */
  static async start(onEnd: (reason: string) => void, socat = "socat"): Promise<KernelWatch> {
    const watch = new KernelWatch(socat, onEnd);
    if (await watch.#listener.ready) return watch;
    throw new Error("the kernel's notifications cannot be heard");
  }

  /** Stops listening. */
  stop(): void {
    this.#listener.stop();
  }

  /** Measures from the deletion of tables until the last of them is in force again. */
  ofTables(families: readonly Family[]): Absence {
    const all = families.map((family) =>
      this.#absence(
        (message) => isOf(message, family, "table", TABLE_NAME) && message.op === "delete",
        (message) => isOf(message, family, "chain", LAST_CHAIN) && message.op === "new",
      ),
    );
    return () => {
      const known = all.flatMap((absence) => absence() ?? []);
      return known.length < all.length ? undefined : Math.max(...known);
    };
  }

  /** Measures from the first deletion of a chain's rule until the chain has rules again. */
  ofRules(family: Family, chain: string): Absence {
    return this.#absence(
      (message) => isOf(message, family, "rule", chain) && message.op === "delete",
      (message) => isOf(message, family, "rule", chain) && message.op === "new",
    );
  }

  /**
   * Measures from the deletion of an element until it is back.
   * @param key in nft's syntax: `10.96.0.1 . tcp . 80`
   */
  ofElement(family: Family, spec: SetSpec, key: string): Absence {
    const [gone, back] = elementMatches(family, spec, key);
    return this.#absence(gone, back);
  }

  /** Measures from the addition of an element until it is removed. @param key as for {@link ofElement} */
  ofExtraElement(family: Family, spec: SetSpec, key: string): Absence {
    const [gone, back] = elementMatches(family, spec, key);
    return this.#absence(back, gone);
  }

  #absence(isGone: Match, isBack: Match): Absence {
    let goneAt: number | undefined;
    let ms: number | undefined;
    const listener = (message: NetlinkMessage) => {
      if (goneAt === undefined) {
        if (isGone(message)) goneAt = performance.now();
      } else if (isBack(message)) {
        ms = performance.now() - goneAt;
        this.#listeners.delete(listener);
      }
    };
    this.#listeners.add(listener);
    return () => ms;
  }
}

function elementMatches(family: Family, spec: SetSpec, key: string): readonly [gone: Match, back: Match] {
  const { value: _, ...keySpec } = spec;
  const wanted = encodedElement(keySpec, key, "", endianness()).key;
  const [gone, back] = (["delete", "new"] as const).map(
    (op) => (message: NetlinkMessage) =>
      message.kind === "elements" &&
      message.family === family &&
      message.name === spec.name &&
      message.op === op &&
      message.elements.some((element) => element.key === wanted),
  ) as [Match, Match];
  return [gone, back];
}

function isOf(
  message: NetlinkMessage,
  family: Family,
  kind: "table" | "chain" | "rule",
  name: string,
): message is Extract<NetlinkMessage, { readonly op: string }> {
  return (
    message.kind === kind &&
    message.family === family &&
    message.table === TABLE_NAME &&
    message.name === name
  );
}
