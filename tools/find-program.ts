/** Looks for the outside programs of `tools/programs.json` on this machine. */
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import programs from "./programs.json" with { type: "json" };

export type Program = keyof typeof programs;

/** The path of the program, of the first of its commands that is installed; undefined where none is. */
export const findProgram = (name: Program): string | undefined =>
  programs[name].commands.map(findCommand).find((path) => path !== undefined);

/** Where a command is; undefined when it is not installed. */
export function findCommand(command: string): string | undefined {
  // Debian keeps some servers out of the PATH of a plain user.
  const folders = [...(process.env["PATH"] ?? "").split(delimiter), "/usr/sbin", "/sbin"];
  return folders.map((folder) => join(folder, command)).find(isRunnable);
}

function isRunnable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
