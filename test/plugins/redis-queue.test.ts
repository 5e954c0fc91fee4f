// The queue on Redis when something fails in the middle: sweeps, cancels, and keys that must end.
import { afterEach, expect, it } from "vitest";
import type { Change, Storage } from "../../core/ports/storage.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { claim, due, enqueue } from "../conformance/queue.ts";
import { tcpShim } from "../support/tcp-shim.ts";
import { until } from "../support/until.ts";
import { describeRedis, eachBench, sharedRedis } from "../support/redis-bench.ts";

const clock = systemClock();

describeRedis("the queue on Redis when something fails", {}, () => {
  const server = sharedRedis();
  const bench = eachBench();
  let prefix: string;
  let made = 0;
  /** Called before each script is sent. */
  let before: () => void = () => {};
  afterEach(() => {
    before = () => {};
  });

  function open(url = server().url): Promise<Storage> {
    prefix = `queue${++made}`;
    const now = (): "" => {
      before();
      return "";
    };
    return bench().open({ url, prefix }, {}, now);
  }

  /** More lines than two pages of a sweep, of a subscription that comes first and one that comes last. */
  async function backlog(storage: Storage): Promise<number> {
    const at = clock.now();
    for (const sub of ["a", "b"]) await enqueue(storage, ...Array.from({ length: 700 }, (_, i) => due(sub, i, at + i)));
    await storage.queue.sweep();
    return 1_400;
  }

  it("finds by the next sweep what one that failed on the way did not come to", async () => {
    const storage = await open();
    const lines = await backlog(storage);
    await storage.queue.cancel("sub_a");
    await storage.queue.cancel("sub_b");
    let pages = 0;
    before = () => {
      if (++pages === 2) throw new Error("the second page fails");
    };
    await expect(storage.queue.sweep()).rejects.toThrow("the second page fails");
    before = () => {};
    expect(await storage.queue.sweep()).toBe(lines - 500);
    expect(await storage.queue.sweep()).toBe(0);
  });

  it("finds by the next sweep what a cancel dropped behind one that was under way", async () => {
    const storage = await open();
    const lines = await backlog(storage);
    await storage.queue.cancel("sub_a");
    await storage.queue.cancel("sub_b");
    let pages = 0;
    let cancelled: Promise<void> | undefined;
    before = () => {
      // Sent before the page is: the first page has passed lines of this subscription.
      if (++pages === 2) cancelled = storage.queue.cancel("sub_a");
    };
    expect(await storage.queue.sweep()).toBe(lines);
    await cancelled;
    before = () => {};
    expect(await storage.queue.sweep()).toBe(500);
    expect(await storage.queue.sweep()).toBe(0);
  });

  /** Sets of commit ids that nothing will ever remove. */
  async function endless(): Promise<readonly string[]> {
    const names = (await server().command("KEYS", `{${prefix}}:c:*`))
      .split("\r\n")
      .filter((name) => name.includes(":c:"));
    const ttls = await Promise.all(names.map((name) => server().command("TTL", name)));
    return names.filter((_, i) => ttls[i]?.startsWith(":-1"));
  }

  it("remembers no commit for ever, also where the first ones of a time were refused", async () => {
    const storage = await open();
    const refused: Change[] = [{ op: "put", key: "meta:a", value: "x", if: "not this" }];
    for (let i = 0; i < 40; i++) await expect(storage.commit([...refused])).rejects.toThrow();
    await storage.commit([{ op: "put", key: "meta:a", value: "x" }]);
    expect(await server().command("KEYS", `{${prefix}}:c:*`)).toContain(":c:");
    expect(await endless()).toEqual([]);
  });

  it("remembers no commit for ever that was repeated long after it was made", async () => {
    const shim = bench().keep(await tcpShim(server().port));
    const storage = await open(`redis://127.0.0.1:${shim.port}`);
    const changes: readonly Change[] = [{ op: "put", key: "event:k:1", value: "x" }];
    shim.swallowReplies();
    await expect(storage.commit(changes)).rejects.toMatchObject({ fault: "uncertain" });
    shim.pass();
    shim.cut();
    // As after half a minute: what remembered it is gone.
    const names = (await server().command("KEYS", `{${prefix}}:c:*`))
      .split("\r\n")
      .filter((name) => name.includes(":c:"));
    for (const name of names) await server().command("DEL", name);
    await until(() =>
      storage.commit(changes).then(
        () => true,
        () => false,
      ),
    );
    expect(await endless()).toEqual([]);
  });

  it("sweeps nothing while nothing is missing, and claims what it found", async () => {
    const storage = await open();
    await enqueue(storage, due("a", 1, clock.now()));
    await storage.queue.sweep();
    await storage.queue.cancel("sub_a");
    expect(await claim(storage.queue)).toEqual([]);
    expect(await storage.queue.sweep()).toBe(1);
    expect(await claim(storage.queue)).toHaveLength(1);
  });
});
