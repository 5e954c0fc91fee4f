/** Servers and storages that a test on Redis has of its own: they end with it. */
import { afterAll, afterEach, beforeAll, describe } from "vitest";
import type { Clock } from "../../core/ports/clock.ts";
import type { PluginContext } from "../../core/ports/plugin.ts";
import type { Storage } from "../../core/ports/storage.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { redis, redisAt, type RedisOptions } from "../../plugins/storage/redis.ts";
import { needs } from "./needs.ts";
import { pluginContext } from "./plugin-context.ts";
import { quietLog } from "./quiet.ts";
import { startRedis, type RedisServer } from "./redis.ts";

const missing = needs("redis");
export const SAFE = { appendonly: "yes", appendfsync: "always" };

/** Describes laws of Redis; they are skipped, with the reason in the title, where no server can be started. */
export function describeRedis(
  title: string,
  options: { readonly concurrent?: boolean; readonly timeout?: number },
  laws: () => void,
): void {
  const why = missing === undefined ? "" : ` (skipped: ${missing})`;
  describe.skipIf(missing !== undefined)(`${title}${why}`, options, laws);
}

/** Other parts of the plug-in's context. */
export type More = Partial<PluginContext> & { readonly clock?: Clock };
/** The clock of the server, and the connections. */
export type How = Parameters<typeof redisAt> extends [RedisOptions, ...infer Rest] ? Rest : never;

export class RedisBench implements AsyncDisposable {
  readonly #stack = new AsyncDisposableStack();
  readonly log = quietLog();

  keep<T extends AsyncDisposable>(one: T): T {
    return this.#stack.use(one);
  }

  async server(config: Readonly<Record<string, string>> = SAFE): Promise<RedisServer> {
    return this.keep(await startRedis({ config }));
  }

  /** @throws StartError */
  async open(options: RedisOptions, { clock = systemClock(), ...more }: More = {}, ...how: How | []): Promise<Storage> {
    const plugin = how.length === 0 ? redis(options) : redisAt(options, ...how);
    const storage = await plugin.setup(pluginContext(clock, "/nonexistent", { log: this.log, ...more }));
    this.#stack.defer(() => storage.dispose());
    return storage;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#stack.disposeAsync();
  }
}

/** Returns the bench of the test that runs: a new one for each. */
export function eachBench(): () => RedisBench {
  let bench = new RedisBench();
  afterEach(async () => {
    const ended = bench;
    bench = new RedisBench();
    await ended[Symbol.asyncDispose]();
  });
  return () => bench;
}

/** Returns the server of all tests of a describe. */
export function sharedRedis(): () => RedisServer {
  let server: RedisServer | undefined;
  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(async () => {
    await server?.[Symbol.asyncDispose]();
  });
  return () => server as RedisServer;
}
