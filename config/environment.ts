/** Reads every `RELAY_*` variable. Secrets may stand in a file named by `…_FILE`. */
import { readFileSync } from "node:fs";
import { utf8 } from "../core/lib/json.ts";
import { didYouMean, type ConfigProblem } from "./problems.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

const PLAIN = {
  RELAY_CONFIG: "config",
  RELAY_HOST: "host",
  RELAY_DATA_DIR: "dataDir",
  RELAY_LOG_LEVEL: "logLevel",
  /** Address of the relay that commands ask. */
  RELAY_URL: "url",
} as const;

/** Each may be given as `<name>_FILE`, the path of a file. Older keys stand with spaces or commas between. */
export const SECRETS = {
  RELAY_MASTER_KEY: "masterKey",
  RELAY_MASTER_KEY_OLDER: "olderMasterKeys",
  RELAY_SIGNING_KEY: "signingKey",
  RELAY_PUBLISH_TOKEN: "publishToken",
  RELAY_WEBHOOK_KEY: "webhookKey",
  RELAY_WEBHOOK_KEY_OLDER: "olderWebhookKeys",
  RELAY_JWT_SECRET: "jwtSecret",
  RELAY_REDIS_URL: "redisUrl",
  RELAY_TOKEN: "token",
} as const;

type TextSetting = (typeof PLAIN)[keyof typeof PLAIN] | (typeof SECRETS)[keyof typeof SECRETS];
/** Settings from outside the config file: by a flag or by the environment. */
export type Settings = { readonly [Name in TextSetting]?: string } & { readonly port?: number };

/** Every variable that is read here. */
const NAMES: readonly string[] = [
  ...Object.keys(PLAIN),
  "RELAY_PORT",
  ...Object.keys(SECRETS).flatMap((name) => [name, `${name}_FILE`]),
];

/** Finds a `RELAY_…` variable that is misspelt: it would set nothing, and nobody would notice. */
export function misspelt(env: Environment): readonly ConfigProblem[] {
  const others = Object.keys(env).filter((name) => name.startsWith("RELAY_") && !NAMES.includes(name));
  return others.flatMap((path) => {
    const hint = didYouMean(path, NAMES);
    return hint === "" ? [] : [{ path, message: `is no variable of the relay and sets nothing${hint}` }];
  });
}

const EMPTY = "is set but empty: give it a value, or unset it";

/** Reads all of it; problems name the variable, never its value. */
export function readEnvironment(env: Environment): {
  readonly settings: Settings;
  readonly problems: readonly ConfigProblem[];
} {
  const settings: { -readonly [K in keyof Settings]: Settings[K] } = {};
  const problems: ConfigProblem[] = [];
  for (const [name, key] of entries(PLAIN)) {
    const value = env[name];
    if (value === undefined) continue;
    if (value.trim() === "") problems.push({ path: name, message: EMPTY });
    else settings[key] = value;
  }
  const port = env["RELAY_PORT"];
  if (port !== undefined) {
    if (/^\d{1,5}$/.test(port) && Number(port) <= 65_535) settings.port = Number(port);
    else problems.push({ path: "RELAY_PORT", message: portMessage(port) });
  }
  for (const [name, key] of entries(SECRETS)) {
    const value = secret(name, env, problems);
    if (value !== undefined) settings[key] = value;
  }
  return { settings, problems };
}

function secret(name: string, env: Environment, problems: ConfigProblem[]): string | undefined {
  const path = `${name}_FILE`;
  const [value, file] = [env[name], env[path]];
  const refuse = (at: string, message: string): undefined => void problems.push({ path: at, message });
  if (file === undefined) return value?.trim() === "" ? refuse(name, EMPTY) : value;
  if (value !== undefined) return refuse(path, `is set beside ${name}: keep one of the two`);
  try {
    const text = utf8.decode(readFileSync(file)).trim();
    return text === "" ? refuse(path, "names an empty file") : text;
  } catch (error) {
    return refuse(path, `names a file that cannot be read (${(error as NodeJS.ErrnoException).code ?? "unreadable"})`);
  }
}

function portMessage(value: string): string {
  const hint = value.startsWith("tcp://")
    ? ". Kubernetes sets it so for a service named relay: set enableServiceLinks: false"
    : "";
  return `must be a whole number from 0 to 65535${hint}`;
}

function entries<T extends Readonly<Record<string, string>>>(table: T): [keyof T & string, T[keyof T]][] {
  return Object.entries(table) as [keyof T & string, T[keyof T]][];
}
