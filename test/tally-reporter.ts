/**
 * Writes down what each test file came to as soon as it has ended, so that a run which is cut off still tells what it did:
 * one JSON object a line. `tools/summary.mjs` adds them up.
 */
import { appendFileSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import type { Reporter, TestModule } from "vitest/node";

export class TallyReporter implements Reporter {
  readonly #file: string;

  /** @param file is written anew by each run */
  constructor(file: string) {
    this.#file = file;
  }

  onTestRunStart(specifications: readonly { readonly moduleId: string }[]): void {
    mkdirSync(dirname(this.#file), { recursive: true });
    writeFileSync(this.#file, line({ files: specifications.length }));
  }

  onTestModuleEnd(module: TestModule): void {
    const count = { passed: 0, failed: 0, skipped: 0 };
    for (const test of module.children.allTests()) {
      const { state } = test.result();
      if (state !== "pending") count[state]++;
    }
    // A file that could not be loaded has no tests of its own.
    if (count.failed === 0 && module.state() === "failed") count.failed = 1;
    appendFileSync(this.#file, line({ file: module.relativeModuleId, ...count }));
  }

  onTestRunEnd(_modules: unknown, unhandledErrors: readonly unknown[]): void {
    appendFileSync(this.#file, line({ ended: true, unhandled: unhandledErrors.length }));
  }
}

const line = (value: unknown): string => `${JSON.stringify(value)}\n`;
