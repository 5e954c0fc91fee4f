/** Defines a command, its options and its parsed command line, and loads the config that this names. */
import type { Settings } from "../../config/environment.ts";
import type { LoadedConfig } from "../../config/load.ts";
import { isKeyId } from "../../core/model/names.ts";
import type { Access } from "../../core/model/token.ts";
import type { CliEnvironment } from "./environment.ts";
import { usage } from "./exit.ts";

/** Options by their flags, each with its help: `--key <key>` takes a value, `--json` does not. */
export type Options = Readonly<Record<string, string>>;

export interface Command {
  /** Its name, of one or two words, then its arguments: `events show <event>`. */
  readonly usage: string;
  readonly about: string;
  readonly options?: Options;
  readonly examples?: readonly string[];
  /** Resolves to the exit code; nothing means 0. */
  run(given: Given, io: CliEnvironment): Promise<number | void>;
}

/** The parsed command line. Each method throws a usage error (64) for a value of the wrong form. */
export class Given {
  /** Positional arguments; the ones in `<>` are always there. */
  readonly args: readonly string[];
  readonly #options: Readonly<Record<string, unknown>>;

  constructor(args: readonly string[], options: Readonly<Record<string, unknown>>) {
    this.args = args;
    this.#options = options;
  }

  flag(name: string): boolean {
    // cac reads `--no-wait` as the opposite of `--wait`, and leaves the value of a name with a hyphen in it as text.
    if (name.startsWith("no-")) return last(this.#options[camel(name.slice(3))]) === false;
    return String(last(this.#options[camel(name)])) === "true";
  }

  /** Values of an option that may be repeated, as they were given. */
  all(name: string): readonly string[] {
    const value = this.#options[camel(name)];
    if (!Array.isArray(value)) return [];
    if (value.some((item) => typeof item !== "string")) throw usage(`--${name} needs a value`);
    return value as string[];
  }

  text(name: string): string | undefined {
    const [value, ...more] = this.all(name);
    if (more.length > 0) throw usage(`--${name} is given twice`);
    if (value === "") throw usage(`--${name} is empty`);
    return value;
  }

  required(name: string): string {
    const value = this.text(name);
    if (value === undefined) throw usage(`--${name} is missing`);
    return value;
  }

  /** One of these words. */
  choice<T extends string>(name: string, words: readonly T[]): T | undefined {
    const value = this.text(name);
    const chosen = words.find((word) => word === value);
    if (value === undefined || chosen !== undefined) return chosen;
    throw usage(`--${name} must be ${words.join(", ").replace(/, ([^,]*)$/, " or $1")}`);
  }

  /** `--key`, the id of an API key. */
  key(): string {
    const key = this.required("key");
    if (!isKeyId(key)) throw usage(`--key: ${JSON.stringify(key)} is no id of an API key: ${KEY_FORM}`);
    return key;
  }

  /** Values of an option that may be repeated, each also split at commas. */
  list(name: string): readonly string[] | undefined {
    const items = this.all(name).flatMap((value) => value.split(",").map((item) => item.trim()));
    if (items.includes("")) throw usage(`--${name} has an empty item`);
    return items.length === 0 ? undefined : items;
  }

  whole(name: string, min: number, max: number): number | undefined {
    const value = this.text(name);
    if (value === undefined) return undefined;
    if (/^\d{1,16}$/.test(value) && Number(value) >= min && Number(value) <= max) return Number(value);
    throw usage(`--${name} must be a whole number from ${min} to ${max}`);
  }
}

/** A flag that is given more than once is a list of all its values. */
const last = (value: unknown): unknown => (Array.isArray(value) ? (value as readonly unknown[]).at(-1) : value);

const KEY_FORM = "it has 1 to 64 letters, digits, _ - and :, and begins with a letter or digit";

const camel = (name: string): string => name.replaceAll(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());

export const CONFIG_OPTIONS: Options = {
  "--config <file>": "config file (RELAY_CONFIG; else ./relay.config.ts)",
  "--data-dir <folder>": "folder of the relay's own files (RELAY_DATA_DIR)",
};

/** Options of every command that asks the relay's API. */
export const API_OPTIONS: Options = {
  "--no-wait": "give up when the relay says to come back later (it waits up to 60 s, ten times)",
  "--url <url>": "where the relay is (RELAY_URL; else from the config)",
  "--token <token>": "access token (RELAY_TOKEN; else one signed with the local key)",
  ...CONFIG_OPTIONS,
};

export const ACCESS_OPTION: Options = { "--access <access>": "manage, or read for one that changes nothing (manage)" };

/** @throws ExitError 64 */
export const readAccess = (given: Given): Access | undefined => given.choice("access", ["manage", "read"]);

export const JSON_OPTION: Options = { "--json": "print JSON" };
export const KEY_OPTION: Options = { "--key <key>": "id of the API key" };

/** Options of a command about what belongs to one API key. */
export const KEY_OPTIONS: Options = { ...KEY_OPTION, ...JSON_OPTION, ...API_OPTIONS };

interface LoadedFor extends LoadedConfig {
  /** Settings of the command line. */
  readonly flags: Settings;
}

/** Flags win over the environment, the file and the default. @throws ConfigError (78) */
export async function loadFor(given: Given, io: CliEnvironment, more: Settings = {}): Promise<LoadedFor> {
  // The config's libraries are imported only here.
  const { loadConfig } = await import("../../config/load.ts");
  const config = given.text("config");
  const dataDir = given.text("data-dir");
  const flags = { ...(config !== undefined && { config }), ...(dataDir !== undefined && { dataDir }), ...more };
  return { ...(await loadConfig({ flags, env: io.env, cwd: io.cwd })), flags };
}
