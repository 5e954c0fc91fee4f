/** The config that is used where no file is found: the defaults. `relay build` replaces it inside an executable. */
import type { RelayConfig } from "./define.ts";

export const builtIn: RelayConfig = {};
