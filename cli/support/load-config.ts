/** Loads the config that a command line names. The config's libraries are imported only here. */
import type { LoadedConfig } from "../../config/load.ts";
import type { Settings } from "../../config/environment.ts";
import type { CliEnvironment } from "./environment.ts";
import type { Given } from "./command.ts";

interface LoadedFor extends LoadedConfig {
  /** Settings of the command line. */
  readonly flags: Settings;
}

/** Flags win over the environment, the file and the default. @throws ConfigError (78) */
export async function loadFor(given: Given, io: CliEnvironment, more: Settings = {}): Promise<LoadedFor> {
  const { loadConfig } = await import("../../config/load.ts");
  const config = given.text("config");
  const dataDir = given.text("data-dir");
  const flags: Settings = {
    ...(config !== undefined && { config }),
    ...(dataDir !== undefined && { dataDir }),
    ...more,
  };
  return { ...(await loadConfig({ flags, env: io.env, cwd: io.cwd })), flags };
}
