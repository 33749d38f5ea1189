/** Makes an unhandled member of a closed union a compile error; throws if one arrives all the same. */
export function assertNever(value: never): never {
  throw new Error(`unhandled case: ${JSON.stringify(value)}`);
}
