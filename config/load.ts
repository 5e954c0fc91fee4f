/** Loads the config: reads its file and checks it. Flags win over the environment, the file and the defaults, in this order. */
import { dirname } from "node:path";
import type { Plan } from "../core/ports/plan.ts";
import type { Settings } from "./environment.ts";
import { checkEventTypes } from "./event-types.ts";
import { readConfig, type LoadOptions } from "./read-file.ts";
import { resolvePlan } from "./validate.ts";

export interface LoadedConfig {
  readonly plan: Plan;
  /** Absolute path; undefined when there is no file and the default holds. */
  readonly file: string | undefined;
  readonly settings: Settings;
}

/** @throws ConfigError (exit 78) with every problem at once; those of schemas come after all others */
export async function loadConfig(options: LoadOptions): Promise<LoadedConfig> {
  const { config, file, settings, problems } = await readConfig(options);
  const { env, cwd } = options;
  const configDir = file === undefined ? cwd : dirname(file);
  const plan = resolvePlan(config, { configDir, cwd, settings, env, problems, ...(file !== undefined && { file }) });
  await checkEventTypes(plan.eventTypes, file);
  return { plan, file, settings };
}
