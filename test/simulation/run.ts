// `npm run simulate -- --storage single|filesystem|several|redis [--seeds N] [--from S] [--story]`: many seeds of the simulation, one
// after the other; ends with 1 when a promise was broken. `--story` tells what happened in each that fails.
import { parseArgs } from "node:util";
import { openReal, simulate, type SimKind } from "./run-seed.ts";
import { Violation } from "./violation.ts";

const KINDS: readonly SimKind[] = ["single", "filesystem", "several", "redis"];

const USAGE = `usage: npm run simulate -- [--storage ${KINDS.join("|")}] [--seeds N] [--from S] [--story]\n`;

function given() {
  try {
    return parseArgs({
      options: {
        storage: { type: "string", default: "single" },
        seeds: { type: "string", default: "1000" },
        from: { type: "string", default: "1" },
        story: { type: "boolean", default: false },
        help: { type: "boolean", default: false },
      },
    });
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n${USAGE}`);
    process.exit(64);
  }
}

const { values } = given();
if (values.help) {
  process.stdout.write(USAGE);
  process.exit(0);
}
const kind = KINDS.find((one) => one === values.storage);
const count = Number(values.seeds);
const from = Number(values.from);
if (kind === undefined || !Number.isInteger(count) || !Number.isInteger(from)) {
  process.stderr.write(USAGE);
  process.exit(64);
}

// Nothing that it started outlives it.
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(143));
const real = await openReal(kind);
const began = performance.now();
const total = { requests: 0, accepted: 0, broken: 0 };
for (let seed = from; seed < from + count; seed++) {
  try {
    const { requests, accepted } = await simulate(seed, kind, values.story, real);
    total.requests += requests;
    total.accepted += accepted;
  } catch (error) {
    if (!(error instanceof Violation)) throw error;
    total.broken++;
    process.stdout.write(`${error.message}\n`);
  }
  if ((seed - from + 1) % 500 === 0) process.stderr.write(`${seed - from + 1} seeds, ${total.broken} broken\n`);
}
const seconds = ((performance.now() - began) / 1_000).toFixed(1);
process.stdout.write(
  `${kind}: seeds ${from} to ${from + count - 1} in ${seconds} s: ${total.requests} requests, ${total.accepted} events, ${total.broken} broken promises\n`,
);
await real[Symbol.asyncDispose]();
process.exit(total.broken === 0 ? 0 : 1);
