// The primary is killed and a standby takes its place: what is lost is what PostgreSQL says that it may lose.
import { expect, it } from "vitest";
import { ConflictError, StorageError } from "../../../core/model/errors.ts";
import type { Change, Storage } from "../../../core/ports/storage.ts";
import { claim, due, endOf, lineOf } from "../../conformance/queue.ts";
import { startPostgres, type PostgresServer } from "../../support/postgres.ts";
import { describePostgres, eachPostgresBench } from "../../support/postgres-bench.ts";
import { tcpShim, type TcpShim } from "../../support/tcp-shim.ts";
import { eventually } from "../../support/until.ts";

const put = (key: string, value: string, cond?: string | null): Change =>
  cond === undefined ? { op: "put", key, value } : { op: "put", key, value, if: cond };
const event = (name: string): Change => put(`event:k:${name}`, "e", null);
const faultOf = (error: unknown): string =>
  error instanceof StorageError ? error.fault : error instanceof ConflictError ? "conflict" : String(error);
const SETTINGS = { settings: ["fsync=on", "wal_sync_method=fdatasync"] };

describePostgres("postgres() with a streaming standby", () => {
  const bench = eachPostgresBench();

  interface Pair {
    readonly primary: PostgresServer;
    readonly standby: PostgresServer;
    /** Between the two. */
    readonly line: TcpShim;
    readonly url: string;
  }

  async function pair(kind: "synchronous" | "asynchronous"): Promise<Pair> {
    const primary = bench().keep(await startPostgres(SETTINGS));
    const line = bench().keep(await tcpShim(primary.port));
    const standby = bench().keep(await startPostgres({ ...SETTINGS, follows: line.port }));
    await eventually("it streams", async () => {
      const rows = await primary.query("select 1 from pg_stat_replication where state = 'streaming'");
      return rows.length === 1;
    });
    if (kind === "synchronous") {
      await primary.query("alter system set synchronous_standby_names = '*'");
      await primary.query("select pg_reload_conf()");
      await eventually("it is synchronous", async () => {
        const rows = await primary.query("select 1 from pg_stat_replication where sync_state = 'sync'");
        return rows.length === 1;
      });
    }
    const url = `postgres://relay@127.0.0.1:${primary.port},127.0.0.1:${standby.port}/postgres`;
    return { primary, standby, line, url };
  }

  /** Repeats the same commit until its end is known. */
  async function commit(storage: Storage, changes: readonly Change[]): Promise<void> {
    for (;;) {
      const end = await storage.commit(changes).then(() => "made", faultOf);
      if (end === "made") return;
      if (end === "conflict" || end === "broken") throw new Error(end);
    }
  }

  it("loses nothing that it acknowledged, and makes nothing twice, where the standby is synchronous", async () => {
    const { primary, standby, url } = await pair("synchronous");
    const storage = await bench().open({ url });
    expect(storage.durability).toBe("replicated");
    const acknowledged: string[] = [];
    let over = false;
    const writers = Array.from({ length: 8 }, async (_, writer) => {
      for (let i = 0; !over; i++) {
        await commit(storage, [
          event(`${writer}_${1_000 + i}`),
          put(`meta:count${writer}`, String(i + 1), i === 0 ? null : String(i)),
        ]);
        acknowledged.push(`event:k:${writer}_${1_000 + i}`);
      }
    });
    const all = Promise.all(writers);
    all.catch(() => undefined);
    await eventually("it is busy", () => acknowledged.length > 200);
    await primary.kill();
    const before = acknowledged.length;
    await standby.query("select pg_promote()");
    const promotedAt = performance.now();
    await eventually("it goes on", () => acknowledged.length > before + 100);
    expect(performance.now() - promotedAt).toBeLessThan(10_000);
    over = true;
    await all;
    const stored = new Set(
      (await standby.query("select key from relay.kv where key like 'event:k:%'")).map((row) => row["key"]),
    );
    expect(acknowledged.filter((key) => !stored.has(key))).toEqual([]);
    expect(stored.size).toBe(acknowledged.length);
    await eventually("the word is that of the new server", () => storage.durability === "fsync", 20_000);
  });

  it("loses what the standby had not got, and no more, where it is asynchronous: its word was fsync", async () => {
    const { primary, standby, line, url } = await pair("asynchronous");
    const storage = await bench().open({ url });
    expect(storage.durability).toBe("fsync");
    const told: string[] = [];
    storage.watch((keys) => told.push(...keys));
    const lines = [due("a", 1, Date.now()), due("a", 2, Date.now())];
    await storage.commit([event("1"), lineOf(lines[0] as (typeof lines)[number])]);
    const [{ at } = {}] = await primary.query("select pg_current_wal_lsn()::text as at");
    await eventually("the standby has it", async () => {
      const [row] = await standby.query("select pg_last_wal_replay_lsn() >= $1::pg_lsn as has", [at]);
      return row?.["has"] === true;
    });
    line.swallow();
    await storage.commit([put("subscription:k:s", "1")]);
    await storage.commit([event("2"), lineOf(lines[1] as (typeof lines)[number])]);
    await primary.kill();
    await standby.query("select pg_promote()");
    told.length = 0;
    // It knows an epoch that the new server has never had: it learns that everything may be other than it knew.
    await commit(storage, [event("3")]).catch((error: unknown) => expect(String(error)).toMatch(/conflict/));
    await eventually("watchers are told", () => told.includes("subscription:"), 20_000);
    await commit(storage, [event("4")]);
    expect(await storage.getMany(["event:k:1", "event:k:2", "subscription:k:s", "event:k:4"])).toEqual([
      "e",
      undefined,
      undefined,
      "e",
    ]);
    // The line that is there is delivered; the one that is not can only lose its lease.
    const ended: string[] = [];
    await eventually(
      "the line is claimed",
      async () => {
        for (const lease of await claim(storage.queue).catch(() => [])) {
          const end = await storage.queue.settle(lease, [endOf(lease)]).then(() => "made", faultOf);
          if (end === "made") ended.push(lease.ordinal);
          else expect(end).toMatch(/LeaseLost/);
        }
        return ended.length > 0;
      },
      60_000,
    );
    expect(ended).toEqual([lines[0]?.ordinal]);
  });

  it("takes no commit for stored that somebody cancelled while it waited for the standby", async () => {
    const { primary, standby, url } = await pair("synchronous");
    const storage = await bench().open({ url });
    await storage.commit([put("meta:a", "0", null)]);
    await standby.kill();
    const changes = [put("meta:a", "1", "0"), event("cancelled")];
    let end: string | undefined;
    const attempt = async (): Promise<void> => {
      end = undefined;
      end = await storage.commit(changes).then(() => "made", faultOf);
    };
    const cancelWaiting = (): Promise<unknown> =>
      primary.query("select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'");
    let going = attempt();
    await eventually("it is visible without the standby", async () => {
      await cancelWaiting();
      return (await primary.query("select 1 from relay.kv where key = 'event:k:cancelled'")).length === 1;
    });
    // Whoever asks again, however often, is never told that it is stored.
    for (const until = performance.now() + 8_000; performance.now() < until;) {
      await going;
      expect(end).toMatch(/uncertain|unavailable/);
      going = attempt();
    }
    await standby.start();
    await going;
    if (end !== "made") await commit(storage, changes);
    expect(await storage.getItem("meta:a")).toBe("1");
    await primary.kill();
    await standby.query("select pg_promote()");
    expect(
      await standby.query("select value from relay.kv where key in ('event:k:cancelled', 'meta:a') order by key"),
    ).toEqual([{ value: "e" }, { value: "1" }]);
  });
});
