/** Reads JSON that is given as an option: the text itself, `@file`, or `-` for stdin. */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { buffer } from "node:stream/consumers";
import type { CliEnvironment } from "./environment.ts";
import { usage } from "./exit.ts";

/** Returns the text without the white space around it. @throws ExitError 64 when it is not JSON */
export async function readJson(option: string, given: string, around: CliEnvironment): Promise<string> {
  const text = given === "-" ? decoded(option, await buffer(around.stdin)) : given;
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
  let bytes: Buffer;
  try {
    bytes = readFileSync(resolve(cwd, name));
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? "unreadable";
    throw usage(`--${option} names a file that cannot be read (${code}): ${name}`);
  }
  return decoded(option, bytes);
}

/** The text without a byte order mark. Bytes of another encoding would otherwise become replacement characters. */
function decoded(option: string, bytes: Buffer): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw usage(`--${option} is not UTF-8: save it in that encoding`);
  }
}
