/** The config that holds where no file is found: the defaults. `relay build` puts another in its place inside an executable. */
import type { RelayConfig } from "./define.ts";

export const builtIn: RelayConfig = {};
