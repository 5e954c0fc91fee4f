// Ends a CI run: the slowest files, what failed and why, and one plain line, "N passed, N failed, N skipped". `node tools/summary.mjs <tally> <0|1>`: the tally is
// what `test/tally-reporter.ts` wrote, whole or cut off; the second says whether a step has failed already.
import { readFileSync } from "node:fs";

const [file, stepFailed] = process.argv.slice(2);
const sum = { passed: 0, failed: 0, skipped: 0 };
let files = 0;
let done = 0;
let ended = false;
const times = [];
const unhandled = [];
const SLOWEST = 10;
try {
  for (const text of readFileSync(file, "utf8").split("\n")) {
    if (text === "") continue;
    const line = JSON.parse(text);
    if (line.files !== undefined) files = line.files;
    else if (line.ended) {
      ended = true;
      sum.failed += line.unhandled.length;
      unhandled.push(...line.unhandled);
    } else {
      done += 1;
      for (const name of Object.keys(sum)) sum[name] += line[name];
      times.push(line);
    }
  }
} catch {
  console.error("there is no test report");
}
const seconds = (ms) => `${Math.round(ms / 1_000)} s`;
const slowest = times.toSorted((a, b) => b.ms - a.ms).slice(0, SLOWEST);
console.log(`the files took ${seconds(times.reduce((all, { ms }) => all + ms, 0))}, the slowest of them:`);
for (const { file: name, ms } of slowest) console.log(`  ${seconds(ms)} ${name}`);
const indented = (text) => text.replaceAll("\n", "\n    ");
for (const { file: name, failed, failures } of times) {
  if (failed > 0) console.log(`failed: ${name} (${failed})`);
  for (const { test, error } of failures) console.log(`  ${test}\n    ${indented(error)}`);
}
for (const error of unhandled) console.log(`an error that no test caught:\n    ${indented(error)}`);
if (files > 0 && !ended) console.log(`the tests were cut off: ${done} of ${files} files had ended`);
if (sum.passed === 0 || ((stepFailed !== "0" || !ended) && sum.failed === 0)) sum.failed += 1;
console.log(`${sum.passed} passed, ${sum.failed} failed, ${sum.skipped} skipped`);
process.exit(sum.failed > 0 ? 1 : 0);
