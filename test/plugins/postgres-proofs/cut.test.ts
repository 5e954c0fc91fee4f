// A connection that breaks after any number of bytes, in both directions: nothing is lost, and nothing is made twice.
import { expect, it } from "vitest";
import { ConflictError, LeaseLostError, StorageError } from "../../../core/model/errors.ts";
import { DUE } from "../../../core/model/schema.ts";
import type { Change, Lease, Storage } from "../../../core/ports/storage.ts";
import { claim, due, endOf, lineOf } from "../../conformance/queue.ts";
import { cuttingLine, type Direction } from "../../support/cutting-line.ts";
import { describePostgres, eachPostgresBench, sharedPostgres } from "../../support/postgres-bench.ts";

const put = (key: string, value: string, cond?: string | null): Change =>
  cond === undefined ? { op: "put", key, value } : { op: "put", key, value, if: cond };
const mayRepeat = (error: unknown): boolean => error instanceof StorageError && error.fault !== "broken";

/** Repeats the same call while its end is unknown or it was refused, as the relay does. */
async function insist<T>(call: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (!mayRepeat(error)) throw error;
    }
  }
}

describePostgres("postgres() whose connections break after so many bytes", () => {
  const server = sharedPostgres();
  const bench = eachPostgresBench();
  /** Events of one script. */
  const EVENTS = 3;

  /** Each event is taken in, claimed, renewed and ended; a count goes up with each commit. */
  async function script(storage: Storage, from: number): Promise<void> {
    let count = Number((await insist(() => storage.getItem("meta:count"))) ?? 0);
    const step = (): Change => put("meta:count", String(count + 1), count === 0 ? null : String(count));
    for (let i = 0; i < EVENTS; i++) {
      const line = due("a", from + i, Date.now());
      const changes = [step(), put(`event:k:${from + i}`, "e", null), lineOf(line)];
      await insist(() => storage.commit(changes));
      count++;
      storage.queue.add([line]);
    }
    const left = new Set(Array.from({ length: EVENTS }, (_, i) => due("a", from + i, 0).ordinal));
    while (left.size > 0) {
      for (const lease of await insist(() => claim(storage.queue))) {
        expect(left, "claimed again after it was ended").toContain(lease.ordinal);
        if (await ended(storage, lease)) left.delete(lease.ordinal);
      }
    }
  }

  async function ended(storage: Storage, lease: Lease): Promise<boolean> {
    if (!(await insist(async () => storage.queue.extend(lease)))) return false;
    const changes = [
      { ...endOf(lease), if: DUE.write(lease) } as Change,
      put(`delivery:sub_a:${lease.ordinal}`, "done", null),
    ];
    try {
      await insist(() => storage.queue.settle(lease, changes));
      return true;
    } catch (error) {
      if (error instanceof LeaseLostError) return false;
      throw error;
    }
  }

  it.for(["up", "down"] as const)(
    "keeps its word wherever that is: %s",
    { timeout: 240_000 },
    async (direction: Direction) => {
      const line = bench().keep(await cuttingLine(server().port));
      const schema = `cut_${direction}`;
      const url = `postgres://relay@127.0.0.1:${line.port}/postgres`;
      const storage = await bench().open({ url, schema, leaseMs: 15_000 });
      let next = 1;
      const run = async (): Promise<void> => {
        await script(storage, next);
        next += EVENTS;
      };
      await run();
      line.cutAfter(direction, Number.POSITIVE_INFINITY);
      await run();
      const whole = line.counted()[direction];
      expect(whole).toBeGreaterThan(500);
      let cuts = 0;
      const CUTS = 48;
      for (let i = 1; i <= CUTS; i++) {
        line.cutAfter(direction, Math.ceil((whole * i) / (CUTS + 1)));
        await run();
        if (line.broken()) cuts++;
      }
      // The script may end before the last of them, and signs of life count too.
      expect(cuts).toBeGreaterThan(CUTS / 2);
      const rows = async (like: string): Promise<number> =>
        (await server().query(`select 1 from ${schema}.kv where key like '${like}'`)).length;
      expect(await rows("event:k:%")).toBe(next - 1);
      expect(await rows("delivery:sub_a:%")).toBe(next - 1);
      expect(await insist(() => storage.getItem("meta:count"))).toBe(String(next - 1));
      expect(await server().query(`select 1 from ${schema}.due`)).toEqual([]);
    },
  );

  it("says which keys conflict, although the answer was lost", async () => {
    const line = bench().keep(await cuttingLine(server().port));
    const url = `postgres://relay@127.0.0.1:${line.port}/postgres`;
    const storage = await bench().open({ url, schema: "cut_conflict" });
    await storage.commit([put("meta:a", "1")]);
    for (const bytes of [1, 20, 40, 60]) {
      line.cutAfter("down", bytes);
      const changes = [put("meta:a", "2", "0"), put(`meta:b${bytes}`, "1")];
      const error: unknown = await insist(() => storage.commit(changes)).catch((reason: unknown) => reason);
      expect(error).toBeInstanceOf(ConflictError);
      expect((error as ConflictError).keys).toEqual(["meta:a"]);
    }
    expect(await insist(() => storage.getMany(["meta:a", "meta:b1"]))).toEqual(["1", undefined]);
  });
});
