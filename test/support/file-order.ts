import { BaseSequencer, type TestSpecification } from "vitest/node";

/**
 * Test files to run before all others of their kind. Vitest has nothing to go by but the sizes of files, and
 * runs the smallest last.
 */
const FIRST: readonly string[] = [
  // Counts operations, which takes five times as long once other files have loaded most of our code.
  "test/property/linear.test.ts",
  // Small and slow: at the end they would run alone.
  "test/kernel/evaluator.test.ts",
  "test/kernel/towns.test.ts",
];

/** The order of test files. */
export class FileOrder extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const isFirst = ({ moduleId }: TestSpecification) => FIRST.some((name) => moduleId.endsWith(name));
    return [...sorted.filter(isFirst), ...sorted.filter((file) => !isFirst(file))];
  }
}
