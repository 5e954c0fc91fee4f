/** Reads JSON that is given as an option: the text itself, `@file`, or `-` for stdin. */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { text as readText } from "node:stream/consumers";
import type { CliEnvironment } from "./environment.ts";
import { usage } from "./exit.ts";

/** Returns the text without the white space around it. @throws ExitError 64 when it is not JSON */
export async function readJson(option: string, given: string, around: CliEnvironment): Promise<string> {
  const text = given === "-" ? await readText(around.stdin) : given;
  if (given === "-" || given.startsWith("@")) return jsonOption(option, text, around);
  return jsonOption(option, text, around, " (a text needs quotes: '\"paid\"')");
}

/** The same without stdin. */
export function jsonOption(option: string, given: string, { cwd }: CliEnvironment, hint = ""): string {
  const text = given.startsWith("@") ? readFile(option, given.slice(1), cwd) : given;
  try {
    JSON.parse(text);
    return text.trim();
  } catch {
    throw usage(`--${option} is not JSON${hint}`);
  }
}

function readFile(option: string, name: string, cwd: string): string {
  try {
    return readFileSync(resolve(cwd, name), "utf8");
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? "unreadable";
    throw usage(`--${option} names a file that cannot be read (${code}): ${name}`);
  }
}
