// Builds the page when a checkout is installed. Never fails an install: one without the tools for it has no page, and says so when
// it is asked for one. Plain JavaScript, so that any Node from 20 on runs it.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

const build = fileURLToPath(new URL("../dashboard/build.ts", import.meta.url));
const { status, stderr } = spawnSync(process.execPath, [build], { encoding: "utf8" });
if (status !== 0) process.stderr.write(`prepare: the page is not built; \`npm run prepare\` tries again\n${stderr}\n`);
