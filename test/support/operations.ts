import { type Profiler, Session } from "node:inspector";
import { setFlagsFromString } from "node:v8";

/** Array methods that compare or convert all items without calling our code. */
const WALKS = ["includes", "indexOf", "lastIndexOf", "join"] as const;

/**
 * Counts the work of a synchronous function, with the same result on every machine. It adds the number of
 * runs of each block of the product's code, and the lengths of arrays that methods without a callback iterate
 * over. Copies of arrays do not count, because V8 copies thousands of items in a microsecond.
 */
export function countOperations(run: () => unknown): number {
  const session = new Session();
  session.connect();
  const post = <T>(method: string, params: object = {}): T | undefined => {
    let result: T | undefined;
    session.post(method, params, (error: Error | null, value?: object) => {
      if (error !== null) throw error;
      result = value as T;
    });
    return result;
  };
  // Code that V8 optimises, or discards between two runs, loses its counts.
  for (const flag of ["--no-opt", "--no-flush-bytecode"]) setFlagsFromString(flag);
  post("Profiler.enable");
  post("Profiler.startPreciseCoverage", { callCount: true, detailed: true });
  const walks = countWalks();
  try {
    run();
  } finally {
    walks.stop();
  }
  const coverage = post<Profiler.TakePreciseCoverageReturnType>("Profiler.takePreciseCoverage");
  post("Profiler.stopPreciseCoverage");
  session.disconnect();
  for (const flag of ["--opt", "--flush-bytecode"]) setFlagsFromString(flag);
  const own = (coverage?.result ?? []).filter(
    ({ url }) => url.includes("/src/") && !url.includes("/node_modules/"),
  );
  const ranges = own.flatMap(({ functions }) => functions.flatMap((one) => one.ranges));
  return ranges.reduce((sum, { count }) => sum + count, walks.length);
}

/** Adds the lengths of arrays that these methods iterate over, until it is stopped. */
function countWalks(): { length: number; stop(): void } {
  const methods = Array.prototype as unknown as Record<
    string,
    (this: unknown[], ...args: unknown[]) => unknown
  >;
  const originals = WALKS.map((name) => [name, methods[name] as (...args: unknown[]) => unknown] as const);
  const walks = {
    length: 0,
    stop: () => {
      for (const [name, original] of originals) methods[name] = original;
    },
  };
  for (const [name, original] of originals) {
    methods[name] = function (...args) {
      walks.length += this.length;
      return original.apply(this, args);
    };
  }
  return walks;
}
