/** Stands for a value that the evaluator cannot tell: a fact that is not known of the packet, or an expression. */
export const UNKNOWN: unique symbol = Symbol("unknown");

/** A number, or canonical text (an address, a name, the parts of a concatenation). */
export type Value = string | number;

/** The result of an expression. Undefined where the kernel finds no value, which ends the rule. */
export type Evaluated = Value | undefined | typeof UNKNOWN;
