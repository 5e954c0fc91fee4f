/** How the process was started: what the processes that it starts need to read the same config. */
import type { Settings } from "../../config/environment.ts";

/** How the process was started. */
export interface StartedBy {
  /** Settings of the command line. */
  readonly flags: Settings;
  /** The environment before the config was read. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
}
