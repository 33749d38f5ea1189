const UNITS: readonly (readonly [name: string, seconds: number])[] = [
  ["d", 86_400],
  ["h", 3600],
  ["m", 60],
  ["s", 1],
];

/** A time span as kubectl prints ages, in its two largest units: `45s`, `5m12s`, `2h5m`, `3d`. */
export function ageText(seconds: number): string {
  const whole = Math.max(Math.floor(seconds), 0);
  const first = UNITS.findIndex(([, size]) => whole >= size);
  if (first === -1) return "0s";
  let rest = whole;
  return UNITS.slice(first, first + 2)
    .map(([name, size]) => {
      const count = Math.floor(rest / size);
      rest -= count * size;
      return count === 0 ? "" : `${count}${name}`;
    })
    .join("");
}
