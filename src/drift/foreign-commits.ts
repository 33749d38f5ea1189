import { endianness } from "node:os";
import type { Family } from "../base/family.ts";
import { decodedElement, hasEndElements } from "../netlink/element-bytes.ts";
import { type Ruleset, type SetSpec, TABLE_NAME } from "../nft/ast/ruleset.ts";
import { nonEmpty, onlyElements, type TableDelta } from "../nft/delta.ts";
import type { Element } from "../nft/elements.ts";
import type { Commit, TableMessage } from "./kernel-events.ts";

/** Maximum number of elements that are kept of commits. Beyond that, everything is compared. */
const MOST_ELEMENTS = 3000;

/**
 * Foreign commits that were not examined yet, and what our own commits have changed in the same elements
 * since.
 */
export class ForeignCommits {
  #commits: Commit[] = [];
  /** The elements that foreign commits touched. */
  readonly #touched = new Set<string>();
  /** Number of elements of the commits, also if there are too many to keep. */
  #kept = 0;
  /** Who last touched anything but elements, since {@link ForeignCommits.takeDeclarations}. */
  #declarationsAuthor: string | undefined;
  /** Who last did so before. */
  #takenAuthor: string | undefined;
  /** Who made the last of the commits to examine; undefined if there are none. */
  #author: string | undefined;

  /** Whether there is a commit to examine. */
  get isAny(): boolean {
    return this.#author !== undefined;
  }

  get #isTooMuch(): boolean {
    return this.#kept > MOST_ELEMENTS;
  }

  /** Whether elements of our own commits matter, because foreign ones touched some. */
  get needsElementsOfOwnCommits(): boolean {
    return this.#touched.size > 0 && !this.#isTooMuch;
  }

  /** Adds a commit. Of our own commits, only elements that foreign ones touched before are kept. */
  add({ messages, author, isForeign }: Commit): void {
    const elements = messages.filter(areElements);
    if (isForeign) {
      this.#author = author;
      if (elements.length < messages.length) this.#declarationsAuthor = author;
      for (const message of elements) for (const name of namesOf(message)) this.#touched.add(name);
    }
    const kept = isForeign ? elements : this.#ofTouched(elements);
    for (const message of kept) this.#kept += message.elements.length;
    if (this.#isTooMuch) this.#commits = [];
    else if (this.#touched.size > 0) this.#commits.push({ author, isForeign, messages: kept });
  }

  /**
   * Whether chains, rules, or declarations of sets were touched, which messages do not describe fully. The
   * next call reports only later commits.
   */
  takeDeclarations(): boolean {
    this.#takenAuthor = this.#declarationsAuthor;
    this.#declarationsAuthor = undefined;
    return this.#takenAuthor !== undefined;
  }

  /**
   * Compares the elements of all commits with the desired ones, and drops the commits, except for
   * declarations touched since {@link ForeignCommits.takeDeclarations}.
   * @returns `deltas`: the elements that differ now, undefined as for {@link committedChanges} and if there
   * are too many; `author`: who last committed elements that differ, else declarations, else anything
   */
  takeElements(desired: Ruleset): {
    readonly deltas: readonly TableDelta[] | undefined;
    readonly author: string;
  } {
    const changesOf = (commits: readonly Commit[]) =>
      committedChanges(
        commits.flatMap(({ messages }) => messages),
        desired,
      );
    // A commit whose elements cannot be compared one by one may differ.
    const mayDiffer = (commit: Commit) => commit.isForeign && changesOf([commit])?.length !== 0;
    const suspect = this.#commits.findLast(mayDiffer)?.author ?? this.#takenAuthor;
    const author = (this.#isTooMuch ? undefined : suspect) ?? this.#author ?? "";
    const deltas = this.#isTooMuch ? undefined : changesOf(this.#commits);
    const nextAuthor = this.#declarationsAuthor;
    this.clear();
    this.#author = this.#declarationsAuthor = nextAuthor;
    return { deltas, author };
  }

  clear(): void {
    this.#commits = [];
    this.#touched.clear();
    this.#kept = 0;
    this.#declarationsAuthor = undefined;
    this.#takenAuthor = undefined;
    this.#author = undefined;
  }

  #ofTouched(messages: readonly ElementsMessage[]): readonly ElementsMessage[] {
    return messages.flatMap((message) => {
      const names = namesOf(message);
      const elements = message.elements.filter((_, index) => this.#touched.has(names[index] ?? ""));
      return elements.length === 0 ? [] : [{ ...message, elements }];
    });
  }
}

type ElementsMessage = TableMessage & { readonly kind: "elements" };

const areElements = (message: TableMessage): message is ElementsMessage => message.kind === "elements";

function namesOf({ family, name, elements }: ElementsMessage): string[] {
  return elements.map(({ key }) => `${family} ${name} ${key}`);
}

/**
 * Compares the elements that commits touched, ours or not, with the desired ones. The last message about an
 * element tells whether it exists now. Elements of dynamic sets are ignored, and those of foreign sets, which
 * are deleted as a whole.
 * @param messages about our tables, in the order of the commits
 * @returns the elements that differ now; undefined if elements were touched that cannot be compared one by
 * one: bounds of intervals, and forms that we never write
 */
export function committedChanges(
  messages: readonly TableMessage[],
  desired: Ruleset,
): readonly TableDelta[] | undefined {
  const touched = new Map<SetSpec, { family: Family; elements: Map<string, Element | undefined> }>();
  for (const message of messages) {
    const { family } = message;
    if (message.kind !== "elements" || family === undefined) continue;
    const spec = desired[family]?.sets.get(message.name)?.spec;
    if (spec === undefined || spec.dynamic) continue;
    if (hasEndElements(spec)) return undefined;
    const known = touched.get(spec) ?? { family, elements: new Map() };
    touched.set(spec, known);
    for (const raw of message.elements) {
      const element = decodedElement(spec, raw, endianness());
      if (element === undefined) return undefined;
      known.elements.set(element.key, message.op === "new" ? element : undefined);
    }
  }
  return [...touched].flatMap(([spec, { family, elements }]) => {
    const wanted = desired[family]?.sets.get(spec.name)?.elements;
    const wrong = [...elements].filter(([key, element]) => element?.value !== wanted?.get(key));
    const deleted = wrong.flatMap(([, element]) => element ?? []);
    const added = wrong.flatMap(([key]) => {
      const value = wanted?.get(key);
      return value === undefined ? [] : { key, value };
    });
    return nonEmpty(onlyElements({ family, table: TABLE_NAME }, [{ spec, deleted, added }]));
  });
}
