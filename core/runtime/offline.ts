/** The second door of this room for the command: keys, secret options and storage, without a relay that runs. */
export { contextOf, type ContextParts } from "./plugin/context.ts";
export { startOf } from "./plugin/start.ts";
export { SecretOptions, readSecret } from "./secret-options.ts";
export { storedSchema } from "./storage-schema.ts";
export { nullMetrics } from "./observability/null-metrics.ts";
export { compileEventTypes } from "./event-types/compile.ts";
export { keyFile } from "./keys/key-file.ts";
export { loadKeys, makeKeys, mintToken } from "./keys/keyring.ts";
export { heldKeys, keyFolder, lineUp, MASTER, NEXT_MASTER, OLD_MASTER } from "./keys/master-keys.ts";
export { hasMasterKey, judgeMasterKey } from "./keys/rekey.ts";
