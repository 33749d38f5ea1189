import type { Family } from "../base/family.ts";
import { randomNumber } from "../nft/ast/expression.ts";
import type { Expression } from "../nft/ast/json.ts";
import { DRAW_COUNTS, drawsOf } from "./setting-grids.ts";

/** A way to draw a number of a list of endpoints. */
export interface DrawMethod {
  /** The beginning of the names of its chains; no other method has it. */
  readonly name: string;
  /** How many numbers it may draw among. Each has a chain. */
  readonly counts: readonly number[];
  /** The numbers that a chain draws, one after another until the list has one. */
  readonly numbers: (family: Family, count: number) => readonly Expression[];
}

/** How to draw an endpoint of a list. */
export interface Draw {
  readonly method: DrawMethod;
  /** One of the counts of the method. */
  readonly count: number;
}

/** How to draw an endpoint of a list of several. */
export interface ListDraw extends Draw {
  /** The index of the endpoint for each number; absent if each endpoint has one number, whichever it is. */
  readonly slots?: Uint32Array;
}

/** Draws at random. */
export const RANDOM: DrawMethod = {
  name: "balance",
  counts: DRAW_COUNTS,
  numbers: (_, count) => drawsOf(count).map((one) => randomNumber(one, 0)),
};

/** Draws the first endpoint of any list. */
export const FIRST_ENDPOINT_DRAW: Draw = { method: RANDOM, count: 1 };

/** `balance-2` */
export function drawText({ method, count }: Draw): string {
  return `${method.name}-${count}`;
}

/** The draw with a name by {@link drawText}; undefined for other texts. */
export function parseDraw(text: string, methods: readonly DrawMethod[]): Draw | undefined {
  const at = text.lastIndexOf("-");
  const method = methods.find(({ name }) => name === text.slice(0, at));
  const count = method?.counts.find((one) => String(one) === text.slice(at + 1));
  return method === undefined || count === undefined ? undefined : { method, count };
}
