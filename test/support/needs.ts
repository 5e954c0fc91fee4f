// Which outside programs a test may drive here.
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import programs from "../../tools/programs.json" with { type: "json" };

export type Program = keyof typeof programs;

/** The path of the program, of the first of its commands that is installed; undefined where none is. */
export function findProgram(name: Program): string | undefined {
  // Debian keeps some servers out of the PATH of a plain user.
  const folders = [...(process.env["PATH"] ?? "").split(delimiter), "/usr/sbin", "/sbin"];
  const paths = programs[name].commands.flatMap((command) => folders.map((folder) => join(folder, command)));
  return paths.find((path) => {
    try {
      accessSync(path, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

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
