// Loaded into a relay before all else: on SIGUSR2 it writes which functions of the product its main thread has called since the
// last time, to `$CENSUS_FILE`, and says `census <n>`.
import { writeFileSync } from "node:fs";
import { Session } from "node:inspector";
import { isMainThread } from "node:worker_threads";

const { CENSUS_FILE = "" } = process.env;
const root = new URL("../../", import.meta.url).href;
if (isMainThread && CENSUS_FILE !== "") {
  const session = new Session();
  session.connect();
  session.post("Profiler.enable");
  session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
  let taken = 0;
  process.on("SIGUSR2", () => {
    session.post("Profiler.takePreciseCoverage", (_, { result }) => {
      const called = result.flatMap(({ url, functions }) => {
        const file = url.slice(root.length);
        if (!url.startsWith(root) || /^(test|node_modules)\//.test(file)) return [];
        const ran = functions.filter(({ ranges }) => ranges[0].count > 0);
        return ran.map(({ ranges, functionName }) => `${file} ${ranges[0].startOffset} ${functionName}`);
      });
      writeFileSync(CENSUS_FILE, JSON.stringify(called));
      process.stdout.write(`census ${++taken}.\n`);
    });
  });
}
