// Which outside programs a test may drive here.
import { findProgram, type Program } from "../../tools/find-program.ts";
import programs from "../../tools/programs.json" with { type: "json" };

export { findProgram, type Program };

/**
 * Why a test must be skipped here, or undefined when all programs are there:
 * `const missing = needs("strace"); it("…", async ({ skip }) => { skip(missing !== undefined, missing); … })`
 * @throws Error under CI=true, where nothing may be missing
 */
export function needs(...names: readonly Program[]): string | undefined {
  const missing = names.filter((name) => findProgram(name) === undefined);
  if (missing.length === 0) return undefined;
  const reason = `needs ${missing.map((name) => `${name} (Debian's package ${programs[name].package})`).join(", ")}`;
  if (process.env["CI"] === "true") throw new Error(`${reason}; run node tools/setup.mjs`);
  return reason;
}
