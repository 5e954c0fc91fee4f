/**
 * Writes down what each test file came to as soon as it has ended, so that a run which is cut off still tells what it did:
 * one JSON object a line. `tools/summary.mjs` adds them up.
 */
import { appendFileSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import type { Reporter, TestModule } from "vitest/node";

type Errors = readonly { readonly message?: string; readonly stack?: string }[] | undefined;

interface Failure {
  readonly test: string;
  readonly error: string;
}

/** Of one file, so that a line stays short. */
const FAILURES = 5;
const ERROR_CHARS = 600;

/** Says what failed and where, in few lines. */
const told = (errors: Errors): string =>
  (errors ?? [])
    .map(({ message = "", stack = "" }) => {
      const where = stack.split("\n").find((text) => text.includes("/test/")) ?? "";
      return `${message.slice(0, ERROR_CHARS)}\n${where}`;
    })
    .join("\n")
    .slice(0, 2 * ERROR_CHARS);

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
    const failures: Failure[] = [];
    const note = (test: string, errors: Errors): void => {
      if (failures.length < FAILURES) failures.push({ test, error: told(errors) });
    };
    for (const test of module.children.allTests()) {
      const { state, errors } = test.result();
      if (state !== "pending") count[state]++;
      if (state === "failed") note(test.fullName, errors);
    }
    // A file that could not be loaded, or whose hooks failed, may have no failed test.
    if (count.failed === 0 && module.state() === "failed") {
      count.failed = 1;
      note("the file itself", module.errors());
    }
    const ms = Math.round(module.diagnostic().duration);
    appendFileSync(this.#file, line({ file: module.relativeModuleId, ...count, ms, failures }));
  }

  onTestRunEnd(_modules: unknown, unhandledErrors: NonNullable<Errors>): void {
    const unhandled = unhandledErrors.map((error) => told([error]));
    appendFileSync(this.#file, line({ ended: true, unhandled }));
  }
}

const line = (value: unknown): string => `${JSON.stringify(value)}\n`;
