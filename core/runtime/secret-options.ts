/** Reads the secret options of plug-ins, once, and hides them in every text that people see. */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { utf8 } from "../lib/json.ts";
import { StartError } from "../model/errors.ts";
import { isSecretOption, type SecretOption } from "../model/secret-option.ts";
import type { Plugin } from "../ports/plugin.ts";

export interface SecretSurroundings {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Where relative files begin. */
  readonly configDir: string;
}

type Read = { readonly value: string } | { readonly problem: string };
type WithSecrets = Pick<Plugin<string, unknown>, "kind" | "name" | "secrets">;

/** Reads one secret. The problem names the variable or the file, never a value. */
export function readSecret(option: SecretOption, { env, configDir }: SecretSurroundings): Read {
  if (!isSecretOption(option)) return { problem: "must be text, not empty, or secretFrom({ env }) or ({ file })" };
  if (typeof option === "string") return { value: option };
  const { secretFrom: where } = option;
  if ("file" in where) return readFile(resolve(configDir, where.file), where.file);
  const [value, file] = [env[where.env], env[`${where.env}_FILE`]];
  if (value !== undefined && file !== undefined)
    return { problem: `${where.env} and ${where.env}_FILE are both set: keep one of the two` };
  if (file !== undefined) return readFile(resolve(configDir, file), `${where.env}_FILE`);
  if (value === undefined) return { problem: `neither ${where.env} nor ${where.env}_FILE is set` };
  return value.trim() === "" ? { problem: `${where.env} is set but empty` } : { value };
}

function readFile(path: string, named: string): Read {
  try {
    const value = utf8.decode(readFileSync(path)).replace(/\r?\n$/, "");
    return value.trim() === "" ? { problem: `${named}: the file is empty` } : { value };
  } catch (error) {
    return { problem: `${named}: the file cannot be read (${(error as NodeJS.ErrnoException).code ?? "unreadable"})` };
  }
}

/** Returns what is wrong with the secret options of a plug-in, for the check of the config. Paths are of its options. */
export function secretProblems(
  { secrets = {} }: Pick<WithSecrets, "secrets">,
  around: SecretSurroundings,
): readonly { readonly path: string; readonly message: string }[] {
  return Object.entries(secrets).flatMap(([path, option]) => {
    const read = option === undefined ? { value: "" } : readSecret(option, around);
    return "problem" in read ? [{ path, message: read.problem }] : [];
  });
}

/** Shorter values are not hidden: they would stand in ordinary words. */
const SHORTEST = 6;

/** The secret options of one relay, by plug-in. */
export class SecretOptions {
  readonly #around: SecretSurroundings;
  readonly #hiding: ((hide: SecretOptions["hide"]) => void) | undefined;
  /** The longest first: what is left of one that holds another one would be shown. */
  #hidden: readonly string[] = [];

  /** @param hiding called with `hide` once there is something to hide */
  constructor(around: SecretSurroundings, hiding?: (hide: SecretOptions["hide"]) => void) {
    this.#around = around;
    this.#hiding = hiding;
  }

  /**
   * Reads all secret options of a plug-in, and hides them from then on.
   * @returns `PluginContext.secret`
   * @throws StartError 78 when one cannot be read
   */
  of(plugin: WithSecrets): (path: string) => string {
    const values = new Map<string, string>();
    let problem: string | undefined;
    for (const [path, option] of Object.entries(plugin.secrets ?? {})) {
      if (option === undefined) continue;
      const read = readSecret(option, this.#around);
      if ("problem" in read) {
        problem ??= `${path}: ${read.problem}`;
        continue;
      }
      values.set(path, read.value);
      this.#hidden = [...new Set([...this.#hidden, ...formsOf(read.value)])].sort((a, b) => b.length - a.length);
      this.#hiding?.(this.hide);
    }
    // Only now, so that those behind it are hidden as well.
    if (problem !== undefined) throw new StartError(78, `${nameOf(plugin)} cannot start: ${problem}`);
    return (path) => {
      const value = values.get(path);
      if (value === undefined) throw new StartError(78, `${nameOf(plugin)} needs the option ${path}`);
      return value;
    };
  }

  /** Returns the text with every secret that was read replaced by `[masked]`. */
  readonly hide = (text: string): string => {
    let out = text;
    for (const form of this.#hidden) if (out.includes(form)) out = out.replaceAll(form, "[masked]");
    return out;
  };
}

const nameOf = ({ kind, name }: WithSecrets): string => `the ${kind} plug-in ${name}`;

/** Returns a secret as it may stand in a text: as it is, in JSON, and, of a URL, its password alone. */
function formsOf(value: string): string[] {
  const forms = [value, JSON.stringify(value).slice(1, -1)];
  if (URL.canParse(value)) {
    const { password } = new URL(value);
    forms.push(password);
    try {
      forms.push(decodeURIComponent(password));
    } catch {} // No escapes: the password itself is in the list.
  }
  return forms.filter((form) => form.length >= SHORTEST);
}
