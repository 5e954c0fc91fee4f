/** Finds and reads the config file, and checks nothing of it. */
import { existsSync, realpathSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { builtIn } from "./built-in.ts";
import { importFile, resolveOwnModules } from "./module-resolver.ts";
import { type Environment, readEnvironment, SECRETS, type Settings } from "./environment.ts";
import { ConfigError, type ConfigProblem } from "./problems.ts";

const FILE_NAME = "relay.config.ts";

export interface LoadOptions {
  /** Settings of the command line; they win over everything. */
  readonly flags?: Settings;
  readonly env: Environment;
  readonly cwd: string;
}

/** Holds what was read; nothing of it is checked. */
interface ConfigRead {
  /** The export of the file; the built-in config where there is no file. */
  readonly config: unknown;
  /** Absolute path; undefined when there is no file. */
  readonly file: string | undefined;
  readonly settings: Settings;
  /** Problems of the environment. */
  readonly problems: readonly ConfigProblem[];
}

/**
 * Secrets from `…_FILE` stand in `process.env` while the config file is read, so that it can name the plain variable. They
 * are taken out again: another reading would find both forms set, and child processes would inherit them.
 * @throws ConfigError (exit 78) when there is no such file, or it cannot be read
 */
export async function readConfig({ flags = {}, env, cwd }: LoadOptions): Promise<ConfigRead> {
  const read = readEnvironment(env);
  const settings: Settings = { ...read.settings, ...flags };
  const file = findConfig(settings, cwd);
  const { problems } = read;
  if (file === undefined) return { config: builtIn, file, settings, problems };
  const names = env === process.env ? Object.keys(SECRETS).filter((name) => env[name] === undefined) : [];
  for (const name of names) {
    const value = read.settings[SECRETS[name as keyof typeof SECRETS]];
    if (value !== undefined) process.env[name] = value;
  }
  try {
    return { config: await readConfigFile(file), file, settings, problems };
  } finally {
    for (const name of names) delete process.env[name];
  }
}

/** `--config`, else `RELAY_CONFIG`, else `./relay.config.ts` where there is one. */
function findConfig(settings: Settings, cwd: string): string | undefined {
  if (settings.config === undefined) {
    const usual = resolve(cwd, FILE_NAME);
    return existsSync(usual) ? usual : undefined;
  }
  const file = resolve(cwd, settings.config);
  if (!existsSync(file)) throw new ConfigError([{ path: "", message: "there is no such file" }], file);
  if (!statSync(file).isFile()) throw new ConfigError([{ path: "", message: "is not a file" }], file);
  return file;
}

async function readConfigFile(file: string): Promise<unknown> {
  // Node knows a file by its real path.
  const close = resolveOwnModules(pathToFileURL(realpathSync(file)).href);
  const { write } = process.stdout;
  // Stdout is for the data of a command, such as a token or JSON; a library that the file imports may print a line there.
  process.stdout.write = process.stderr.write.bind(process.stderr);
  try {
    const loaded = await evaluate(file);
    if (typeof loaded === "object" && loaded !== null && "default" in loaded) return loaded.default;
  } catch (error) {
    throw new ConfigError([{ path: "", message: `cannot be read: ${reason(error, file)}` }], file, { cause: error });
  } finally {
    process.stdout.write = write;
    close();
  }
  const message = "has no default export: write `export default defineRelay({ … })`";
  throw new ConfigError([{ path: "", message }], file);
}

/** `require` reads ES modules and TypeScript too, and works inside a single executable; `import` knows top-level await. */
async function evaluate(file: string): Promise<unknown> {
  try {
    return createRequire(file)(file) as unknown;
  } catch (error) {
    if ((error as NodeJS.ErrnoException | undefined)?.code !== "ERR_REQUIRE_ASYNC_MODULE") throw error;
    return await Promise.race([importFile(pathToFileURL(file).href), neverEnding()]);
  }
}

/** Rejects when nothing is left that the file's top-level await could wait for: the process would end without a word. */
const neverEnding = (): Promise<never> =>
  new Promise((_, reject) => {
    process.once("beforeExit", () => reject(new Error("its top-level await waits for something that never comes")));
  });

/** Says what went wrong in the file, and where. */
function reason(error: unknown, file: string): string {
  if (!(error instanceof Error)) return "it throws something that is no Error";
  const code = (error as NodeJS.ErrnoException).code;
  if (code === "ERR_UNSUPPORTED_NODE_MODULES_TYPE_STRIPPING") return "TypeScript is not read inside node_modules";
  const text = typeof error.message === "string" ? error.message.split("\n")[0] : "";
  const stack = String(error.stack);
  const place = new RegExp(`${file.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&")}:(\\d+)(?::(\\d+))?`);
  const [, line, column] = place.exec(stack) ?? [];
  // Of a syntax error, a mark stands below its place in the line.
  const mark = stack.split("\n").find((one) => /^\s*\^+\s*$/.test(one));
  const at = column ?? (mark && mark.indexOf("^") + 1);
  return `${error.name}: ${text}${line === undefined ? "" : ` (line ${line}${at ? `, column ${at}` : ""})`}`;
}
