/** Reads and writes what a command line names: files, stdin, JSON, and secrets in a file or the environment. */
import { createReadStream, readFileSync, statSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { faultIn } from "../../core/lib/json-fault.ts";
import { utf8 } from "../../core/lib/json.ts";
import { reasonOf } from "../../core/lib/reason.ts";
import type { CliEnvironment } from "./environment.ts";
import { EX_REFUSED, ExitError, usage } from "./exit.ts";

const MIB = 1_048_576;

/** The file of an argument, or stdin for `-`. @throws ExitError 64 also when it is larger than so many MiB */
export async function readArgument(file: string, mostMiB: number, { cwd, stdin }: CliEnvironment): Promise<string> {
  try {
    const input = file === "-" ? stdin : createReadStream(resolve(cwd, file));
    return decoded("the file", await readWhole(input, mostMiB, "the file"));
  } catch (error) {
    throw error instanceof ExitError ? error : unreadable("the file", error, file);
  }
}

/** @param what names it in the error. @throws ExitError 64 as soon as more than so many MiB have come */
export async function readWhole(input: AsyncIterable<Buffer>, mostMiB: number, what: string): Promise<Buffer> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of input) {
    size += part.length;
    if (size > mostMiB * MIB) throw usage(`${what} is larger than ${mostMiB} MiB`);
    parts.push(part);
  }
  return Buffer.concat(parts);
}

/** The text of a file that an option names. @throws ExitError 64 */
export function readOptionFile(
  option: string,
  file: string,
  { cwd }: Pick<CliEnvironment, "cwd">,
  named = file,
): string {
  let bytes: Buffer;
  try {
    bytes = readFileSync(resolve(cwd, file));
  } catch (error) {
    throw unreadable(`--${option} names a file that`, error, named);
  }
  return decoded(`--${option}`, bytes);
}

/**
 * The text of `@file`, of stdin for `-`, or of `env:NAME`. A secret itself is no argument, because every user of the machine
 * can read the arguments of a process, and a shell keeps them in its history. Errors never repeat what was given.
 * @throws ExitError 64
 */
export async function readSecretText(option: string, from: string, io: CliEnvironment): Promise<string> {
  if (from === "-") return decoded(`--${option}`, await readWhole(io.stdin, 1, `--${option}`));
  if (from.startsWith("env:")) {
    const value = io.env[from.slice("env:".length)];
    if (value === undefined) throw usage(`--${option} names an environment variable that is not set`);
    return value;
  }
  if (!from.startsWith("@"))
    throw usage(`--${option} takes @file, - for stdin, or env:NAME: others can read the arguments of a command`);
  return readOptionFile(option, from.slice(1), io, "");
}

/** Far more than the relay takes of one event. */
const JSON_MIB = 16;

/** Returns JSON given as itself, `@file` or `-`, without the white space around it. @throws ExitError 64 when it is not JSON */
export async function readJsonOption(option: string, given: string, io: CliEnvironment): Promise<string> {
  const text = given === "-" ? decoded(`--${option}`, await readWhole(io.stdin, JSON_MIB, `--${option}`)) : given;
  if (given === "-" || given.startsWith("@")) return jsonOption(option, text, io);
  return jsonOption(option, text, io, " (a text needs quotes: '\"paid\"')");
}

/** The same without stdin. */
export function jsonOption(option: string, given: string, io: CliEnvironment, hint = ""): string {
  const text = given.startsWith("@") ? readOptionFile(option, given.slice(1), io) : given;
  try {
    JSON.parse(text);
    return text.trim();
  } catch {
    throw usage(`--${option} is not JSON (${faultIn(text)})${hint}`);
  }
}

/** @param what names it in the error. @throws ExitError 64 for bytes that are not UTF-8 */
export function decoded(what: string, bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes);
  } catch {
    throw usage(`${what} is not UTF-8: save it in that encoding`);
  }
}

/** The value of a JSON text; undefined when it is none. */
export function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

export const objectOf = (value: unknown): Readonly<Record<string, unknown>> | undefined =>
  typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Readonly<Record<string, unknown>>)
    : undefined;

export function unreadable(what: string, error: unknown, file = ""): ExitError {
  const code = (error as NodeJS.ErrnoException).code ?? "unreadable";
  return usage(`${what} cannot be read (${code})${file === "" ? "" : `: ${file}`}`);
}

/** Writes a file that is not there yet, or replaces it by `--force`. @throws ExitError 1 */
export function writeNewFile(file: string, text: string, force: boolean): void {
  try {
    writeFileSync(file, text, { flag: force ? "w" : "wx" });
  } catch (error) {
    if (isFolder(file)) throw new ExitError(EX_REFUSED, `${file} is a folder: name the file in it`, { cause: error });
    if ((error as NodeJS.ErrnoException).code === "EEXIST")
      throw new ExitError(EX_REFUSED, `${file} is there already; --force replaces it`);
    throw unwritable(file, error);
  }
}

/** False also for what this user may not read. */
function isFolder(file: string): boolean {
  try {
    return statSync(file).isDirectory();
  } catch {
    return false;
  }
}

/** Nothing can be written there, for the reason that the system gave. Exit code 1. */
export const unwritable = (file: string, error: unknown): ExitError =>
  new ExitError(EX_REFUSED, `${file} cannot be written: ${reasonOf(error)}`, { cause: error });
