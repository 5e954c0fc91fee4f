/**
 * Reads a secret that an option names: `@file`, `-` for stdin, or `env:NAME`. The secret itself is no argument, because
 * every user of the machine can read the arguments of a process, and a shell keeps them in its history.
 */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { text as readText } from "node:stream/consumers";
import type { CliEnvironment } from "./environment.ts";
import { usage } from "./exit.ts";

const ENVIRONMENT = "env:";

/** Returns the secret without the white space around it. Errors never repeat what was given. @throws ExitError 64 */
export async function readSecretOption(
  option: string,
  from: string | undefined,
  around: CliEnvironment,
): Promise<string | undefined> {
  if (from === undefined) return undefined;
  const secret = (await sourceOf(option, from, around)).trim();
  if (secret === "") throw usage(`--${option} names a place that is empty`);
  return secret;
}

async function sourceOf(option: string, from: string, { cwd, env, stdin }: CliEnvironment): Promise<string> {
  if (from === "-") return readText(stdin);
  if (from.startsWith(ENVIRONMENT)) {
    const value = env[from.slice(ENVIRONMENT.length)];
    if (value === undefined) throw usage(`--${option} names an environment variable that is not set`);
    return value;
  }
  if (!from.startsWith("@"))
    throw usage(`--${option} takes @file, - for stdin, or env:NAME: others can read the arguments of a command`);
  try {
    return readFileSync(resolve(cwd, from.slice(1)), "utf8");
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? "unreadable";
    throw usage(`--${option} names a file that cannot be read (${code})`);
  }
}
