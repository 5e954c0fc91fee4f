// PgBouncer in transaction mode: no session lasts, and the relay needs none but for LISTEN.
import { expect, it } from "vitest";
import { StorageError } from "../../../core/model/errors.ts";
import type { Change, Storage } from "../../../core/ports/storage.ts";
import { claim, due, endOf, enqueue } from "../../conformance/queue.ts";
import { needs } from "../../support/needs.ts";
import { startPgBouncer } from "../../support/pgbouncer.ts";
import { describePostgres, eachPostgresBench, sharedPostgres } from "../../support/postgres-bench.ts";
import { eventually } from "../../support/until.ts";

const missing = needs("pgbouncer");
const put = (key: string, value: string, cond?: string | null): Change =>
  cond === undefined ? { op: "put", key, value } : { op: "put", key, value, if: cond };

describePostgres("postgres() behind PgBouncer in transaction mode", () => {
  const server = sharedPostgres();
  const bench = eachPostgresBench();

  /** Takes in, claims and ends so many events; a count goes up with each. */
  async function work(storage: Storage, events: number): Promise<void> {
    const count = Number((await storage.getItem("meta:count")) ?? 0);
    for (let i = count; i < count + events; i++) {
      await storage.commit([put("meta:count", String(i + 1), i === 0 ? null : String(i))]);
      await enqueue(storage, due("a", i, Date.now()));
    }
    let ended = 0;
    await eventually("all are claimed", async () => {
      for (const lease of await claim(storage.queue)) {
        await storage.queue.settle(lease, [endOf(lease)]);
        ended++;
      }
      return ended === events;
    });
  }

  it.for([
    ["with directUrl, where bells ring", true],
    ["without, where it looks every 250 ms", false],
  ] as const)("runs two nodes as one relay: %s", async ([, direct], { skip }) => {
    skip(missing !== undefined, missing);
    const pooler = bench().keep(await startPgBouncer(server().port));
    const options = {
      url: pooler.url,
      schema: direct ? "pooled_direct" : "pooled",
      ...(direct && { directUrl: server().url }),
    };
    const [a, b] = [await bench().open(options), await bench().open(options)];
    await work(a, 20);
    await work(b, 20);
    expect(await b.status()).toMatchObject({ nodes: 2, listening: direct });
    const told: string[] = [];
    b.watch((keys) => told.push(...keys));
    await a.commit([put("subscription:k:s", "1")]);
    await eventually("the other is told", () => told.includes("subscription:k:s"), 5_000);
    const abort = AbortSignal.timeout(20_000);
    await claim(b.queue);
    const waking = b.queue.wake(abort);
    await enqueue(a, due("b", 1, Date.now() + 300));
    await waking;
    expect(abort.aborted).toBe(false);
    const heard: string[] = [];
    b.nodes?.answer(async (word) => void heard.push(word));
    expect(await a.nodes?.ask("hello", { mostMs: 5_000, silentMs: 5_000 })).toBe(true);
    expect(heard).toEqual(["hello"]);
  });

  it("never runs the statements of another relay that shares its sessions", async ({ skip }) => {
    skip(missing !== undefined, missing);
    // One prepared a statement under a name on a session which then serves the other.
    const pooler = bench().keep(await startPgBouncer(server().port, 2));
    const open = (schema: string): Promise<Storage> =>
      bench().open({ url: pooler.url, directUrl: server().url, schema });
    const all = [await open("tenant_a"), await open("tenant_b")] as const;
    for (let i = 0; i < 60; i++) {
      await Promise.all(
        all.map(async (storage, which) => {
          const name = `${which}_${i}`;
          const changes = [put(`event:k:${name}`, name, null)];
          await eventually("it is stored", () =>
            storage.commit(changes).then(
              () => true,
              (error: unknown) => {
                expect(error).toBeInstanceOf(StorageError);
                return false;
              },
            ),
          );
          expect(await storage.getItem(`event:k:${name}`)).toBe(name);
        }),
      );
    }
    for (const [which, schema] of ["tenant_a", "tenant_b"].entries()) {
      const rows = await server().query(`select value from ${schema}.kv where key like 'event:k:%'`);
      expect(rows.filter(({ value }) => !String(value).startsWith(`${which}_`))).toEqual([]);
      expect(rows).toHaveLength(60);
    }
  });
});
