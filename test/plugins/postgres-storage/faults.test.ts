// Lost answers, lost connections and races of two nodes: nothing is made twice, and nothing is lost.
import { expect, it } from "vitest";
import { ConflictError, StorageError } from "../../../core/model/errors.ts";
import type { Change, Storage } from "../../../core/ports/storage.ts";
import { claim, due, endOf, enqueue } from "../../conformance/queue.ts";
import { describePostgres, eachPostgresBench, sharedPostgres } from "../../support/postgres-bench.ts";
import { tcpShim } from "../../support/tcp-shim.ts";
import { eventually } from "../../support/until.ts";

const put = (key: string, value: string, cond?: string | null): Change =>
  cond === undefined ? { op: "put", key, value } : { op: "put", key, value, if: cond };

const faultOf = (error: unknown): string =>
  error instanceof StorageError ? error.fault : error instanceof ConflictError ? "conflict" : String(error);

describePostgres("postgres() with a connection that breaks", () => {
  const server = sharedPostgres();
  const bench = eachPostgresBench();

  async function behindShim(schema: string) {
    const shim = bench().keep(await tcpShim(server().port));
    const url = `postgres://relay@127.0.0.1:${shim.port}/postgres`;
    return { shim, url, storage: await bench().open({ url, schema }) };
  }

  it("counts each of a hundred commits once, though connections are reset all the while", async () => {
    const { shim, storage } = await behindShim("resets");
    await storage.commit([put("meta:count", "0")]);
    let cutting = true;
    const cutter = (async () => {
      while (cutting) {
        await new Promise((resolve) => void setTimeout(resolve, 60));
        shim.cut();
      }
    })();
    let made = 0;
    for (let i = 0; i < 100; i++) {
      const was = String(made);
      const changes = [put("meta:count", String(made + 1), was), put(`event:k:${1_000 + i}`, "e", null)];
      for (;;) {
        const end = await storage.commit(changes).then(
          () => "made",
          (error: unknown) => faultOf(error),
        );
        if (end === "made") break;
        expect(["unavailable", "uncertain"]).toContain(end);
      }
      made++;
    }
    cutting = false;
    await cutter;
    await eventually("it reads again", async () => (await storage.getItem("meta:count").catch(() => "")) === "100");
    expect(await storage.range("event:k:", { limit: 200 })).toHaveLength(100);
  });

  it("repeats a batch whose answer was lost, and makes it once", async () => {
    const { shim, storage } = await behindShim("replies");
    await storage.commit([put("meta:a", "0")]);
    shim.swallowReplies();
    const committing = storage.commit([put("meta:a", "1", "0"), put("meta:new", "x", null)]);
    await eventually(
      "it has been made",
      async () => (await server().query("select value from replies.kv where key = 'meta:a'"))[0]?.["value"] === "1",
    );
    shim.pass();
    shim.cut();
    await committing;
    expect(await storage.getMany(["meta:a", "meta:new"])).toEqual(["1", "x"]);
  });

  it("fails within seconds while nothing answers, and works again when it does", async () => {
    const { shim, storage } = await behindShim("hole");
    await storage.commit([put("meta:a", "0")]);
    shim.swallow();
    const began = performance.now();
    expect(await storage.getItem("meta:a").catch(faultOf)).toBe("unavailable");
    expect(await storage.commit([put("meta:b", "1")]).catch(faultOf)).toMatch(/unavailable|uncertain/);
    expect(performance.now() - began).toBeLessThan(20_000);
    shim.pass();
    shim.cut();
    await eventually(
      "it commits again",
      async () => {
        const end = await storage.commit([put("meta:c", "1")]).then(() => "made", faultOf);
        return end === "made";
      },
      8_000,
    );
  });

  it("gives back lines that were born in a batch of unknown result", async () => {
    const { shim, storage } = await behindShim("orphans");
    await storage.commit([put("meta:a", "0")]);
    shim.swallowReplies();
    const committing = enqueue(storage, due("a", 1, Date.now())).catch(faultOf);
    const ended = await committing;
    shim.pass();
    shim.cut();
    const found: string[] = [];
    await eventually(
      "its line is claimed",
      async () => {
        for (const lease of await claim(storage.queue).catch(() => [])) {
          found.push(lease.ordinal);
          await storage.queue.settle(lease, [endOf(lease)]);
        }
        return found.length > 0 || ended !== undefined;
      },
      15_000,
    );
    expect(found.length).toBeLessThan(2);
  });
});

describePostgres("two nodes on postgres()", () => {
  const server = sharedPostgres();
  const bench = eachPostgresBench();
  const open = async (schema: string): Promise<readonly [Storage, Storage]> => {
    const { url } = server();
    return [await bench().open({ url, schema }), await bench().open({ url, schema })];
  };

  it("never both insert a key and find it absent", async () => {
    const [a, b] = await open("ghosts");
    for (let i = 0; i < 60; i++) {
      const ends = await Promise.allSettled([
        a.commit([put(`meta:a${i}`, "1", null), { op: "check", key: `meta:b${i}`, if: null }]),
        b.commit([put(`meta:b${i}`, "1", null), { op: "check", key: `meta:a${i}`, if: null }]),
      ]);
      expect(ends.filter(({ status }) => status === "fulfilled").length).toBeLessThan(2);
      const found = (await a.getMany([`meta:a${i}`, `meta:b${i}`])).filter((value) => value !== undefined);
      expect(found).toHaveLength(ends.filter(({ status }) => status === "fulfilled").length);
    }
    expect(await a.range("meta:", { limit: 1_000 })).not.toContainEqual(expect.objectContaining({ value: "" }));
  });

  it("never accept an event for subscriptions that the other has changed", async () => {
    const [a, b] = await open("fanned");
    const told: string[] = [];
    b.watch((keys) => told.push(...keys));
    for (let i = 0; i < 30; i++) {
      await a.commit([put("subscription:k:s", String(i))]);
      const stale = await b.commit([put(`event:k:${1_000 + i}`, "e", null)]).catch(faultOf);
      // It heard of the change before, or is refused and has heard of it then.
      if (stale === "conflict") expect(told).toContain("subscription:k:s");
      else expect(told.length).toBeGreaterThan(0);
      await b.commit([put(`event:k:${2_000 + i}`, "e", null)]);
      told.length = 0;
    }
  });

  it("count requests of a caller together", async () => {
    const [a, b] = await open("counted");
    const take = { key: "k", sustained: { limit: 7, windowMs: 60_000 }, burst: { limit: 7, windowMs: 60_000 } };
    const all = await Promise.all(
      Array.from({ length: 40 }, async (_, i) => (await (i % 2 === 0 ? a : b).counters.take([take]))[0]?.code),
    );
    expect(all.filter((code) => code === undefined)).toHaveLength(7);
  });

  it("ask each other, and answer when they have acted", async () => {
    const [a, b] = await open("asked");
    const heard: string[] = [];
    b.nodes?.answer(async (word) => void heard.push(word));
    expect(await a.nodes?.ask("hello", { mostMs: 5_000, silentMs: 5_000 })).toBe(true);
    expect(heard).toEqual(["hello"]);
  });
});
