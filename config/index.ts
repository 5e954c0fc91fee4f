/** The entry of the package `relaybox`: everything that a config file or a plug-in may import. Importing it loads no library. */
export { defineRelay } from "./define.ts";
export type { LimitsConfig, RelayConfig } from "./define.ts";
export { replay, retention } from "./jobs.ts";
export { filesystem } from "../plugins/storage/filesystem.ts";
export { memory } from "../plugins/storage/memory.ts";
export { redis } from "../plugins/storage/redis.ts";
export { sqlite } from "../plugins/storage/sqlite.ts";
export { unstorage } from "../plugins/storage/unstorage.ts";
export { http } from "../plugins/source/http.ts";
export { spool } from "../plugins/source/spool.ts";
export { https } from "../plugins/transport/https.ts";
export { otlp } from "../plugins/observer/otlp.ts";
export { accounts } from "../plugins/auth/accounts.ts";
export { jwt } from "../plugins/auth/jwt.ts";
export * from "../core/index.ts";
