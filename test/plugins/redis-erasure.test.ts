// Erased events on the disk of a Redis.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import type { Storage } from "../../core/ports/storage.ts";
import { hurried, pacedClock } from "../support/paced-clock.ts";
import type { RedisServer } from "../support/redis.ts";
import { until } from "../support/until.ts";
import { describeRedis, eachBench } from "../support/redis-bench.ts";

const EVENTS = 20;
/** Is there in the hour after a rewrite was asked for. */
const RESTS = "{relay}:rewriting";

const bench = eachBench();
const open = (url: string): Promise<Storage> => bench().open({ url }, { clock: pacedClock(hurried(5_000)) });

/** Returns how many of the events are in any file of Redis. */
function readable({ dir }: RedisServer): number {
  const files = readdirSync(dir, { recursive: true, withFileTypes: true }).filter((one) => one.isFile());
  const text = files.map(({ parentPath, name }) => {
    try {
      return readFileSync(join(parentPath, name), "latin1");
    } catch {
      return ""; // The rewrite has deleted it meanwhile.
    }
  });
  return new Set(text.join("\n").match(/of Alice \d+\./g)).size;
}

const keyOf = (n: number): string => `event:key_1:${n}`;
const numbers = Array.from({ length: EVENTS }, (_, n) => n);
async function eraseAll(storage: Storage): Promise<void> {
  for (const n of numbers) await storage.commit([{ op: "put", key: keyOf(n), value: `of Alice ${n}.` }]);
  for (const n of numbers) await storage.commit([{ op: "delete", key: keyOf(n) }]);
}

describeRedis("redis() and what was erased", {}, () => {
  it("has its append-only file rewritten after erasures, once in an hour however many nodes there are", async () => {
    const server = await bench().server();
    const storage = await open(server.url);
    await open(server.url);
    await storage.commit([{ op: "put", key: "audit:key_1:1", value: "stays" }]);
    for (const rewrites of [1, 2]) {
      // Within the hour nothing is asked for.
      await server.command("SET", RESTS, "");
      await eraseAll(storage);
      expect(readable(server)).toBe(EVENTS);
      await server.command("DEL", RESTS);
      await until(() => readable(server) === 0);
      expect(await server.command("INFO", "persistence")).toContain(`aof_rewrites:${rewrites}\r\n`);
      const leftMs = Number((await server.command("PTTL", RESTS)).slice(1));
      expect(leftMs).toBeGreaterThan(3_500_000);
      expect(leftMs).toBeLessThanOrEqual(3_600_000);
    }
    expect(await storage.getItem("audit:key_1:1")).toBe("stays");
  });

  it("warns once where it may not ask for that, and goes on", async () => {
    const server = await bench().server();
    await server.command("ACL", "SETUSER", "poor", "on", ">secret", "~*", "&*", "+@all", "-bgrewriteaof");
    const warned = (): number =>
      bench().log.lines.filter(({ message }) => message.startsWith("Redis keeps erased data")).length;
    const storage = await open(server.url.replace("redis://", "redis://poor:secret@"));
    await eraseAll(storage);
    await until(() => warned() > 0);
    // The hour is over.
    await server.command("DEL", RESTS);
    await until(async () => (await server.command("EXISTS", RESTS)) === ":1\r\n");
    expect(warned()).toBe(1);
    await storage.commit([{ op: "put", key: "audit:key_1:1", value: "stored" }]);
    expect(readable(server)).toBe(EVENTS);
  });
});
