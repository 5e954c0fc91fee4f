// A server whose disk is full, and one whose vacuum somebody holds back.
import { chmodSync } from "node:fs";
import { expect, it } from "vitest";
import { ConflictError, StorageError } from "../../../core/model/errors.ts";
import type { Change } from "../../../core/ports/storage.ts";
import { systemClock } from "../../../core/runtime/clock.ts";
import { describePostgres, eachPostgresBench, sharedPostgres } from "../../support/postgres-bench.ts";
import { startPostgres } from "../../support/postgres.ts";
import { smallDisk } from "../../support/small-disk.ts";
import { eventually } from "../../support/until.ts";

const faultOf = (error: unknown): string =>
  error instanceof StorageError ? error.fault : error instanceof ConflictError ? "conflict" : String(error);

describePostgres("postgres() whose server has no room", () => {
  const bench = eachPostgresBench();

  it("refuses commits, loses none that it acknowledged, and goes on when there is room", async ({ skip }) => {
    const disk = smallDisk(160 * 1024 * 1024);
    if (typeof disk === "string") return skip(disk);
    using own = disk;
    chmodSync(own.folder, 0o755);
    {
      await using server = await startPostgres({
        within: own.folder,
        settings: ["max_wal_size=48MB", "min_wal_size=32MB"],
      });
      const storage = await bench().open({ url: server.url });
      // Random enough that nothing makes it smaller.
      const value = Buffer.from(crypto.getRandomValues(new Uint8Array(40_000))).toString("base64");
      const acknowledged: string[] = [];
      const ends = new Set<string>();
      let made = 0;
      const commit = async (): Promise<string> => {
        const key = `event:k:${10_000 + made++}`;
        const changes: readonly Change[] = [{ op: "put", key, value, if: null }];
        const end = await storage.commit(changes).then(() => "made", faultOf);
        if (end === "made") acknowledged.push(key);
        return end;
      };
      for (let i = 0; i < 20; i++) expect(await commit()).toBe("made");
      own.fill(1024 * 1024);
      await eventually("it is refused", async () => {
        const end = await commit();
        ends.add(end);
        return end !== "made";
      });
      for (let i = 0; i < 5; i++) ends.add(await commit());
      expect([...ends].filter((end) => !/^(made|full|uncertain|unavailable)$/.test(end))).toEqual([]);
      own.clear();
      // Where no room was left for its log, PostgreSQL has ended, and is started again by whoever runs it.
      if ((await server.query("select 1").catch(() => [])).length === 0)
        await server.start().catch((error: unknown) => expect(String(error)).toMatch(/lock file|postmaster/));
      await eventually("it commits again", async () => (await commit()) === "made", 30_000);
      const stored = new Set((await server.query("select key from relay.kv")).map(({ key }) => key));
      expect(acknowledged.filter((key) => !stored.has(key))).toEqual([]);
      await storage.dispose();
    }
  });
});

describePostgres("postgres() and a transaction that stays open", () => {
  const server = sharedPostgres();
  const bench = eachPostgresBench();

  it("names it in the log and in its status after five minutes, until it ends", async () => {
    const real = systemClock();
    let later = 0;
    // Looks often; and five minutes pass in one step.
    const clock = {
      ...real,
      monotonic: () => real.monotonic() + later,
      sleep: (until: number, signal?: AbortSignal) => real.sleep(Math.min(until, real.now() + 100), signal),
    };
    // A role that may not see what others run sees this all the same.
    await server().query("create role plain login; create schema plain authorization plain");
    const url = server().url.replace("relay@", "plain@");
    const storage = await bench().open({ url, schema: "plain" }, clock);
    const dump = await server().connect();
    try {
      await dump.query("begin isolation level repeatable read; select count(*) from plain.kv");
      const { rows } = await dump.query<{ pid: number }>("select pg_backend_pid() as pid");
      await new Promise((resolve) => void setTimeout(resolve, 1_000));
      expect(await storage.status()).not.toHaveProperty("heldBack");
      later = 301_000;
      await eventually(
        "it is named",
        async () => {
          const { heldBack } = (await storage.status()) as { readonly heldBack?: string };
          return heldBack === `the session of process ${rows[0]?.pid}`;
        },
        20_000,
      );
      const said = bench().log.lines.filter(({ message }) => message.includes("keeps vacuum from freeing rows"));
      expect(said).toHaveLength(1);
      await dump.query("commit");
      await eventually("it is no longer", async () => !("heldBack" in (await storage.status())), 20_000);
    } finally {
      await dump.end();
    }
  });
});
