/** Servers and storages that a test on PostgreSQL has of its own: they end with it. */
import { afterAll, afterEach, beforeAll, describe } from "vitest";
import type { Clock } from "../../core/ports/clock.ts";
import type { Storage } from "../../core/ports/storage.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { postgres, type PostgresStorageOptions } from "../../plugins/storage/postgres.ts";
import { needs } from "./needs.ts";
import { pluginContext } from "./plugin-context.ts";
import { startPostgres, type PostgresServer } from "./postgres.ts";
import { quietLog } from "./quiet.ts";

const missing = needs("postgres");

/** Describes laws of PostgreSQL; they are skipped, with the reason in the title, where no server can be started. */
export function describePostgres(title: string, laws: () => void): void {
  const why = missing === undefined ? "" : ` (skipped: ${missing})`;
  describe.skipIf(missing !== undefined)(`${title}${why}`, { timeout: 60_000 }, laws);
}

export class PostgresBench implements AsyncDisposable {
  readonly #stack = new AsyncDisposableStack();
  readonly log = quietLog();

  keep<T extends AsyncDisposable>(one: T): T {
    return this.#stack.use(one);
  }

  /** @throws StartError */
  async open(options: PostgresStorageOptions, clock: Clock = systemClock()): Promise<Storage> {
    const storage = await postgres(options).setup(pluginContext(clock, "/nonexistent", { log: this.log }));
    this.#stack.defer(() => storage.dispose());
    return storage;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#stack.disposeAsync();
  }
}

/** Returns the bench of the test that runs: a new one for each. */
export function eachPostgresBench(): () => PostgresBench {
  let bench = new PostgresBench();
  afterEach(async () => {
    const ended = bench;
    bench = new PostgresBench();
    await ended[Symbol.asyncDispose]();
  }, 60_000);
  return () => bench;
}

/** Returns the server of all tests of a describe. */
export function sharedPostgres(): () => PostgresServer {
  let server: PostgresServer | undefined;
  beforeAll(async () => {
    server = await startPostgres();
  }, 60_000);
  afterAll(async () => {
    await server?.[Symbol.asyncDispose]();
  });
  return () => server as PostgresServer;
}
