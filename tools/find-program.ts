/** Looks for the outside programs of `tools/programs.json` on this machine. */
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import programs from "./programs.json" with { type: "json" };

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
