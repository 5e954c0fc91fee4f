/**
 * Begins the test files that take longest before all others: at the end, nothing would be left to do beside them. The rest go
 * in vitest's own order, the largest or slowest first.
 */
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** They take half a minute to one, of which they mostly wait for processes that they have started. */
const LONGEST = [
  ...["torture/torture", "dashboard/events", "e2e/package", "cli/build", "e2e/brokers-kill", "power-loss/filesystem"],
  ...["plugins/filesystem", "e2e/big-batches", "faults/kill", "dashboard/views", "e2e/kill", "runtime/transforms"],
  ...["plugins/to-amqp", "plugins/from-amqp", "e2e/nodes-changes", "e2e/editions", "dashboard/subscriptions"],
];

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification): number => {
      const at = LONGEST.findIndex((name) => moduleId.endsWith(`test/${name}.test.ts`));
      return at === -1 ? LONGEST.length : at;
    };
    return (await super.sort(files)).toSorted((a, b) => rank(a) - rank(b));
  }
}
