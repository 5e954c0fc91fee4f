/** `redis({ url | sentinels | cluster, prefix })` lets several nodes run as one relay. */
import type { Plugin } from "../../core/ports/plugin.ts";
import { own } from "../../core/ports/own-plugins.ts";
import type { Storage } from "../../core/ports/storage.ts";
import type { connection } from "./redis/connect.ts";
import { LEASE_MS, problemsOf, type RedisOptions } from "./redis/options.ts";
import type { Now } from "./redis/time-argument.ts";

export type { RedisOptions } from "./redis/options.ts";

/**
 * Keeps records, the due index and the limiter's windows on Redis 6 or newer. What a commit is worth depends on the
 * set-up of Redis, which is read every few seconds and reported: with `appendfsync always`, `replicated` where commits
 * wait for `replicas`, `fsync` on a Redis that no other can replace; `volatile` otherwise. A Redis that evicts keys is
 * refused.
 *
 * While Redis is unreachable, every call fails within 2 s and none falls back to memory; within 5 s of its return
 * everything works again.
 */
export function redis(options: RedisOptions = {}): Plugin<"storage", Storage> & { readonly shared: true } {
  return redisAt(options ?? {}, () => "");
}

/**
 * Like `redis`, with the clock of its decisions passed in: for tests, which cannot move a server's clock.
 * @param connect makes the connections: for tests that simulate the network
 */
export function redisAt(
  options: RedisOptions,
  now: Now,
  connect?: typeof connection,
): Plugin<"storage", Storage> & { readonly shared: true } {
  return own({
    kind: "storage",
    name: "redis",
    shared: true,
    problems: problemsOf(options),
    secrets: { url: options.url, password: options.password, sentinelPassword: options.sentinelPassword },
    leaseMs: options.leaseMs ?? LEASE_MS,
    // Loaded here, as most relays use another storage.
    setup: async (ctx) => (await import("./redis/open.ts")).open(options, ctx, now, connect),
  });
}
