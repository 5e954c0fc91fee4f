// Ends a CI run with one plain line: "N passed, N failed, N skipped". `node tools/summary.mjs <vitest json> <0|1>`: the
// second says whether a step has failed already.
import { readFileSync } from "node:fs";

const [file, stepFailed] = process.argv.slice(2);
let passed = 0;
let failed = 0;
let skipped = 0;
try {
  const report = JSON.parse(readFileSync(file, "utf8"));
  passed = report.numPassedTests;
  skipped = report.numPendingTests + (report.numTodoTests ?? 0);
  // A file that could not even be loaded has no failed tests of its own.
  failed =
    report.numFailedTests +
    report.testResults.filter((one) => one.status === "failed" && one.assertionResults.length === 0).length;
} catch {
  console.error("there is no test report");
}
if (passed === 0 || (stepFailed !== "0" && failed === 0)) failed += 1;
console.log(`${passed} passed, ${failed} failed, ${skipped} skipped`);
process.exit(failed > 0 ? 1 : 0);
