/** The running version, read from `package.json` alone. */
import manifest from "../../package.json" with { type: "json" };

export const VERSION: string = manifest.version;
