/**
 * Returns a signal that is aborted with the first of two, for its reason. If one is absent, returns the
 * other.
 */
export function firstOf(one: AbortSignal, other: AbortSignal | undefined): AbortSignal {
  return other === undefined ? one : AbortSignal.any([one, other]);
}
