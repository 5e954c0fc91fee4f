// Words between nodes on a real Redis, and how old a node's knowledge may be when it begins an attempt.
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { FRESH_MS } from "../../core/records/ended-by.ts";
import type { Nodes, Storage } from "../../core/ports/storage.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { bound } from "../../core/runtime/plugin/bound.ts";
import { memory } from "../../plugins/storage/memory.ts";
import { redis } from "../../plugins/storage/redis.ts";
import { testClock } from "../support/clock.ts";
import { needs } from "../support/needs.ts";
import { testPath } from "../support/path.ts";
import { pluginContext } from "../support/plugin-context.ts";
import { startRedis, type RedisServer } from "../support/redis.ts";
import { tcpShim } from "../support/tcp-shim.ts";
import { eventually } from "../support/until.ts";

const missing = needs("redis");
const WAIT = { mostMs: 3_000, silentMs: 2_000 };

describe.skipIf(missing !== undefined)(
  `nodes that ask each other${missing === undefined ? "" : ` (${missing})`}`,
  () => {
    const clock = systemClock();
    let server: RedisServer;
    let relays = 0;
    beforeAll(async () => {
      server = await startRedis();
    });
    afterAll(() => server?.[Symbol.asyncDispose]());

    interface Node extends AsyncDisposable {
      readonly storage: Storage;
      readonly nodes: Nodes;
    }
    async function node(prefix: string, url = server.url): Promise<Node> {
      const storage = await redis({ url, prefix }).setup(pluginContext(clock, "/nonexistent"));
      return { storage, nodes: storage.nodes as Nodes, [Symbol.asyncDispose]: () => storage.dispose() };
    }
    const fresh = (): string => `words${++relays}`;

    it("a node alone is answered at once", async () => {
      await using one = await node(fresh());
      expect(await one.nodes.ask("stop sub_1", WAIT)).toBe(true);
    });

    it("whoever asks waits for the slowest, each acts once though asked again, and hears only its own relay", async () => {
      const prefix = fresh();
      await using one = await node(prefix);
      await using two = await node(prefix);
      await using three = await node(prefix);
      await using foreign = await node(fresh());
      const heard: string[] = [];
      const slow = Promise.withResolvers<void>();
      two.nodes.answer(async (word) => void heard.push(`two ${word}`));
      three.nodes.answer(async (word) => {
        heard.push(`three ${word}`);
        await slow.promise;
      });
      foreign.nodes.answer(async () => void heard.push("foreign"));
      one.nodes.answer(async () => void heard.push("one"));
      // Listens on the wire: how often it was asked, and how often somebody said that it is done.
      const said: string[] = [];
      const ear = new Redis(server.url);
      ear.on("message", (_, text: string) => void said.push(text));
      await ear.subscribe(`{${prefix}}:words`);
      const count = (part: string): number => said.filter((text) => text.includes(part)).length;
      let over = false;
      const asking = one.nodes.ask("stop sub_1", WAIT).finally(() => (over = true));
      await eventually("both have heard", () => heard.length === 2);
      // The quick one has answered twice, so all were asked again.
      await eventually("it is asked again", () => count('"word":"stop sub_1"') > 1 && count('"to":') > 1);
      ear.disconnect();
      expect(over).toBe(false);
      slow.resolve();
      expect(await asking).toBe(true);
      expect(heard.toSorted()).toEqual(["three stop sub_1", "two stop sub_1"]);
      expect(await one.storage.status()).toMatchObject({ nodes: 3 });
    });

    it("one that acts wrongly, or never listened, still answers", async () => {
      const prefix = fresh();
      await using one = await node(prefix);
      await using two = await node(prefix);
      await using _three = await node(prefix);
      two.nodes.answer(() => Promise.reject(new Error("broken")));
      expect(await one.nodes.ask("known sub_1", WAIT)).toBe(true);
    });

    it("what was committed before a question is known when it is heard", async () => {
      const prefix = fresh();
      await using one = await node(prefix);
      await using two = await node(prefix);
      const order: string[] = [];
      two.storage.watch((keys) => void order.push(...keys));
      two.nodes.answer(async (word) => void order.push(word));
      for (let i = 0; i < 50; i++) {
        await one.storage.commit([{ op: "put", key: `subscription:k:s${i}`, value: "{}" }]);
        expect(await one.nodes.ask(`known s${i}`, WAIT)).toBe(true);
      }
      expect(order.filter((line) => !line.endsWith(":"))).toEqual(
        Array.from({ length: 50 }, (_, i) => [`subscription:k:s${i}`, `known s${i}`]).flat(),
      );
    });

    it("one that left is not waited for; one that fell silent, for as long as it may count", async () => {
      const prefix = fresh();
      await using shim = await tcpShim(server.port);
      await using one = await node(prefix);
      await using two = await node(prefix);
      await using _cut = await node(prefix, `redis://127.0.0.1:${shim.port}`);
      await two.storage.dispose();
      shim.swallow();
      const from = performance.now();
      expect(await one.nodes.ask("known sub_1", { mostMs: 400, silentMs: 5_000 })).toBe(false);
      expect(performance.now() - from).toBeLessThan(4_900);
      expect(await one.nodes.ask("known sub_1", WAIT)).toBe(true);
      expect(performance.now() - from).toBeLessThan(30_000);
      shim.pass();
      await eventually("it counts again", async () => (await one.storage.status())["nodes"] === 2, 60_000);
      expect(await one.nodes.ask("known sub_1", WAIT)).toBe(true);
    });

    it("words that are none are passed over", async () => {
      const prefix = fresh();
      await using one = await node(prefix);
      await using two = await node(prefix);
      for (const text of ["", "x", "0 x", "0 {", "0 null", "0 1", '0 {"to":1}', "0 {}"])
        await server.command("PUBLISH", `{${prefix}}:words`, text);
      expect(await one.nodes.ask("known sub_1", WAIT)).toBe(true);
      expect(await two.nodes.ask("known sub_1", WAIT)).toBe(true);
    });
  },
);

describe("a node that was stopped between its last look and the first byte", () => {
  it("looks again before it begins, and begins nothing that was ended meanwhile", async () => {
    const clock = testClock();
    const inner = await memory().setup({ clock, log: { debug() {}, info() {}, warn() {}, error() {} } } as never);
    let looks = 0;
    let cancelled = false;
    const queue = bound(inner.queue, {
      async extend(lease: Parameters<Storage["queue"]["extend"]>[0]) {
        looks++;
        // The answer was given before the deletion, and is read long after it.
        if (looks === 1) {
          const held = await inner.queue.extend(lease);
          cancelled = true;
          await clock.advance(FRESH_MS + 1);
          return held;
        }
        return !cancelled && (await inner.queue.extend(lease));
      },
    });
    await using test = await testPath({ clock, storage: { ...inner, queue } });
    await test.subscribe();
    await test.publish();
    await test.start();
    await eventually("it looked twice", () => looks >= 2);
    expect(test.sent).toEqual([]);
  });
});
