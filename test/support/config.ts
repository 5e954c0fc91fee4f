/** Runs the check of a config in tests. */
import { ConfigError } from "../../config/problems.ts";
import { resolvePlan, type Frame } from "../../config/validate.ts";

export const FRAME: Frame = { configDir: "/etc/relay", cwd: "/home/me", settings: {} };

/** Returns the error of a config that is refused; `undefined` for a good one. */
export function refused(config: unknown, frame: Frame = FRAME): ConfigError | undefined {
  try {
    resolvePlan(config, frame);
    return undefined;
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return error;
  }
}

/** Returns the problems of a config: the message by path. */
export const problems = (config: unknown, frame: Frame = FRAME): Record<string, string> =>
  Object.fromEntries(refused(config, frame)?.problems.map(({ path, message }) => [path, message]) ?? []);
