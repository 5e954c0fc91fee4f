/** Reads JSON that is given as an option: the text itself, `@file`, or `-` for stdin. */
import type { CliEnvironment } from "./environment.ts";
import { usage } from "./exit.ts";
import { readOptionFile, readWhole } from "./named-files.ts";

/** Far more than the relay takes of one event. */
const MOST_MIB = 16;

/** Returns the text without the white space around it. @throws ExitError 64 when it is not JSON */
export async function readJsonOption(option: string, given: string, io: CliEnvironment): Promise<string> {
  const text = given === "-" ? decoded(option, await readWhole(io.stdin, MOST_MIB, `--${option}`)) : given;
  if (given === "-" || given.startsWith("@")) return jsonOption(option, text, io);
  return jsonOption(option, text, io, " (a text needs quotes: '\"paid\"')");
}

/** The same without stdin. */
export function jsonOption(option: string, given: string, io: CliEnvironment, hint = ""): string {
  const text = given.startsWith("@") ? decoded(option, readOptionFile(option, given.slice(1), io)) : given;
  try {
    JSON.parse(text);
    return text.trim();
  } catch {
    throw usage(`--${option} is not JSON${hint}`);
  }
}

/** The text without a byte order mark. Bytes of another encoding would otherwise become replacement characters. */
function decoded(option: string, bytes: Buffer): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw usage(`--${option} is not UTF-8: save it in that encoding`);
  }
}
