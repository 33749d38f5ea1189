import { endianness } from "node:os";
import { messageOf } from "../../src/base/errors.ts";
import type { Family } from "../../src/base/family.ts";
import { type NetlinkListener, netlinkListener } from "../../src/kernel/netlink-listener.ts";
import { systemClock } from "../../src/kernel/system-clock.ts";
import type { NetlinkMessage } from "../../src/netlink/message.ts";
import { type SetSpec, TABLE_NAME } from "../../src/nft/ast/ruleset.ts";
import { encodedElement } from "./encoded-elements.ts";

/** For how long something was missing, milliseconds; undefined while it is missing, or has not been missing yet. */
export type Absence = () => number | undefined;

type Match = (message: NetlinkMessage) => boolean;

/** Our base chains come last when a table is made: this one after all the others. */
const LAST_CHAIN = "nat-prerouting";

/** Measures by the kernel's own notifications for how long what somebody deletes in our tables is missing. */
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
      onEnd: (error) => onEnd(`the kernel's notifications ended: ${messageOf(error)}`),
    });
  }

  /** Starts, and resolves when it hears. @param socat the program, for another network namespace one that starts it there */
  static async start(onEnd: (reason: string) => void, socat = "socat"): Promise<KernelWatch> {
    const watch = new KernelWatch(socat, onEnd);
    if (await watch.#listener.ready) return watch;
    throw new Error("the kernel's notifications cannot be heard");
  }

  /** Stops listening. */
  stop(): void {
    this.#listener.stop();
  }

  /** From the deletion of tables until the last of them is in force again. */
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

  /** From the first deletion of a rule of a chain until it has rules again. */
  ofRules(family: Family, chain: string): Absence {
    return this.#absence(
      (message) => isOf(message, family, "rule", chain) && message.op === "delete",
      (message) => isOf(message, family, "rule", chain) && message.op === "new",
    );
  }

  /** From the deletion of an element until it is there again. @param key as nft has it: `10.96.0.1 . tcp . 80` */
  ofElement(family: Family, spec: SetSpec, key: string): Absence {
    const [gone, back] = elementMatches(family, spec, key);
    return this.#absence(gone, back);
  }

  /** From the addition of an element until it is gone again. @param key as {@link ofElement} */
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
      message.set === spec.name &&
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
