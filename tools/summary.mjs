// Ends a CI run with one plain line: "N passed, N failed, N skipped". `node tools/summary.mjs <tally> <0|1>`: the tally is
// what `test/tally-reporter.ts` wrote, whole or cut off; the second says whether a step has failed already.
import { readFileSync } from "node:fs";

const [file, stepFailed] = process.argv.slice(2);
const sum = { passed: 0, failed: 0, skipped: 0 };
let files = 0;
let done = 0;
let ended = false;
try {
  for (const text of readFileSync(file, "utf8").split("\n")) {
    if (text === "") continue;
    const line = JSON.parse(text);
    if (line.files !== undefined) files = line.files;
    else if (line.ended) {
      ended = true;
      sum.failed += line.unhandled;
    } else {
      done += 1;
      for (const name of Object.keys(sum)) sum[name] += line[name];
      if (line.failed > 0) console.log(`failed: ${line.file} (${line.failed})`);
    }
  }
} catch {
  console.error("there is no test report");
}
if (files > 0 && !ended) console.log(`the tests were cut off: ${done} of ${files} files had ended`);
if (sum.passed === 0 || ((stepFailed !== "0" || !ended) && sum.failed === 0)) sum.failed += 1;
console.log(`${sum.passed} passed, ${sum.failed} failed, ${sum.skipped} skipped`);
process.exit(sum.failed > 0 ? 1 : 0);
