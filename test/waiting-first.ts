/**
 * Begins the test files that mostly wait for time to pass before all others: at the end, nothing would be left to do beside
 * them. The rest go in vitest's own order, the largest or slowest first.
 */
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** They take a minute or two, and a third of one core. */
const WAITING = ["test/torture/torture.test.ts"];

export class WaitingFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification): number => {
      const at = WAITING.findIndex((path) => moduleId.endsWith(path));
      return at === -1 ? WAITING.length : at;
    };
    return (await super.sort(files)).toSorted((a, b) => rank(a) - rank(b));
  }
}
