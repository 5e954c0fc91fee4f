import { afterAll, beforeAll, describe, it } from "vitest";
import type { Storage } from "../../../core/ports/storage.ts";
import { postgresAt } from "../../../plugins/storage/postgres.ts";
import { describeCounters } from "../../conformance/counters.ts";
import { describeStorage } from "../../conformance/storage.ts";
import { testClock } from "../../support/clock.ts";
import { needs } from "../../support/needs.ts";
import { pluginContext } from "../../support/plugin-context.ts";
import { startPostgres, type PostgresServer } from "../../support/postgres.ts";

/** Longer than any law moves the clock with a lease in hand. */
const LEASE_MS = 600_000;
const missing = needs("postgres");

describe.skipIf(missing !== undefined)(
  `postgres() on a real server${missing === undefined ? "" : ` (skipped: ${missing})`}`,
  () => {
    const clock = testClock();
    const schemas = new Map<Storage, string>();
    let server: PostgresServer;
    let made = 0;

    beforeAll(async () => {
      server = await startPostgres();
    });
    afterAll(async () => {
      await server[Symbol.asyncDispose]();
    });

    async function openAs(schema: string): Promise<Storage> {
      const storage = await postgresAt({ url: server.url, schema, leaseMs: LEASE_MS }, clock.now).setup(
        pluginContext(clock, "/nonexistent"),
      );
      schemas.set(storage, schema);
      return storage;
    }
    const schemaOf = (storage: Storage): string => schemas.get(storage) as string;

    describeStorage("postgres()", {
      clock,
      open: () => openAs(`law${++made}`),
      async reopen(storage) {
        await storage.dispose();
        return openAs(schemaOf(storage));
      },
      second: (storage) => openAs(schemaOf(storage)),
      lapse: () => clock.advance(LEASE_MS),
      backlog: 11_000,
      publisherSubscriptions: 2,
      skips: { untold: "the commit that writes a due line puts it into the queue" },
    });

    describe("counters", () => {
      // One node: two would read the clock of the tests in another order than the server gets it.
      let storage: Storage;
      beforeAll(async () => {
        storage = await openAs("counters");
      });
      afterAll(() => storage.dispose());
      describeCounters(it, {
        open: async () => storage.counters,
        advance: (ms) => clock.advance(ms),
        key: () => `key${++made}`,
      });
    });
  },
);
