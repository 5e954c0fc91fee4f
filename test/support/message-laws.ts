/**
 * The laws of a source that reads messages from another system, with a real one: `describeMessageSource`. A new source writes an
 * `Upstream` and has them all.
 */
import { describe, afterAll, beforeAll, expect, it } from "vitest";
import type { Plugin } from "../../core/ports/plugin.ts";
import type { Accept, Source } from "../../core/ports/source.ts";
import { describeSource, type Upstream as Learned } from "../conformance/source.ts";
import { paid } from "./intake.ts";
import { ledger, openSource, stopWhileSilent, type Opened } from "./message-plugin.ts";
import { pacedClock } from "./paced-clock.ts";
import { shelf } from "./shelf.ts";
import { tcpShim } from "./tcp-shim.ts";
import { eventually, until } from "./until.ts";

/** Options of a source as JSON, so that they may also stand in the config of another process. */
type Options = Readonly<Record<string, unknown>>;

/** A message in the dead-letter place: its payload, and the code of the reason. */
export interface Dead {
  readonly payload: string;
  readonly code: unknown;
}

/** A real system that holds messages, and how a source reads one of its queues: a queue, stream, topic or table. */
export interface Upstream extends AsyncDisposable {
  readonly server: { kill(): Promise<void>; start(): Promise<void> };
  readonly port: number;
  /** Makes a queue that no other test has, with a dead-letter place. Resolves to its name. */
  make(): Promise<string>;
  /** The factory of the source, its name, and its options for a queue, at this port of the system or one that leads there. */
  readonly from: (options: never) => Plugin<"source", Source>;
  readonly factory: string;
  options(name: string, maxInFlight?: number, port?: number): Options;
  /** Resolves when the system has stored the messages. */
  send(name: string, payloads: readonly string[], headers?: Readonly<Record<string, string>>): Promise<unknown>;
  /** Resolves to how many messages are not acknowledged, as far as the system says. */
  left(name: string): Promise<number>;
  dead(name: string): Promise<readonly Dead[]>;
  /** Makes the dead-letter place refuse what comes. Resolves to what makes it take it again. */
  refuseDead(name: string): Promise<() => Promise<unknown>>;
  /** Connects the test itself again, to a system that was started again. */
  dial?(): Promise<void>;
}

/** In which ways one differs from others. */
export interface Differences {
  /** The id of the first message's event. */
  readonly firstId: (name: string) => RegExp;
  /** Begins the names of a CloudEvent's attributes in headers. */
  readonly cloudPrefix: string;
  /** True where a dead letter is the message itself, moved by the system: it has no reason, and the log alone does. */
  readonly movesDead?: boolean;
  /** True where messages without a key come in any order. */
  readonly unordered?: true;
  /** Matches what `/readyz` says while the dead-letter place refuses; absent where the source says nothing and does not try again. */
  readonly deadSays?: RegExp;
  /** Resolves to how many messages the system has not handed out; absent where it does not say. */
  readonly waiting?: (name: string) => Promise<number>;
  /** Deletes a queue, and makes it again, empty, under its name; absent where nobody does that. */
  readonly remake?: { drop(name: string): Promise<unknown>; add(name: string): Promise<unknown> };
  /** Matches what `/readyz` says of a queue that was dropped; absent where it is made by the source. */
  readonly missingSays?: RegExp;
  /** A stop beside a silent system takes less, ms; absent where a connection cannot be led through a port of the test's. */
  readonly stopsWithinMs?: number;
  /** How many messages there are when it is killed in mid-stream. @default 3_000 */
  readonly total?: number;
  /** Opens a source whose acknowledgements the test overhears; absent where `left` and the log say what upstream learns. */
  readonly overheard?: (name: string, given: Given) => Promise<Pick<Learning, "source" | "learned">>;
}

type Given = Parameters<typeof openSource>[1];

/** Asks upstream and dials it again sooner, as the tests cannot wait for it; what bounds the end of a session stays. */
export const hasty = (ms: number): number => (ms > 10_000 ? ms / 30 : ms > 1_500 ? ms : Math.min(ms, 100));

/** A queue that grows, or is made again, is read within this time by the system's clock, ms. */
export const SEEN_MS = 60_000;

const fsync = { durability: "fsync" } as const;
const event = (data: unknown): string => JSON.stringify(paid({ data }));
const events = (count: number): readonly string[] => Array.from({ length: count }, (_, i) => event(i));
const BAD = JSON.stringify(paid({ keyId: "not a key" }));

export interface MessageSourceHarness<Up extends Upstream> {
  readonly name: string;
  /** Why the system is not here; the laws are skipped then. */
  readonly missing: string | undefined;
  start(): Promise<Up>;
  differences(upstream: () => Up): Differences;
  /** Registers what is true of this source alone. */
  more(upstream: () => Up): void;
}

/** Registers the laws. */
export function describeMessageSource<Up extends Upstream>(harness: MessageSourceHarness<Up>): void {
  const { name, missing } = harness;
  let upstream: Up;
  const how = harness.differences(() => upstream);
  const nameOf = (queue: string): string => upstream.from(upstream.options(queue) as never).name;

  async function opened(queue: string, maxInFlight?: number, given: Given = {}) {
    const plugin = upstream.from(upstream.options(queue, maxInFlight) as never);
    return await openSource(plugin, { clock: pacedClock(hasty), ...given });
  }

  async function started(
    queue: string,
    maxInFlight?: number,
    around: (accept: Accept) => Accept = (accept) => accept,
  ): Promise<Opened & AsyncDisposable> {
    const made = await opened(queue, maxInFlight);
    await made.source.start(around(made.desk.intake.accept), fsync);
    return { ...made, [Symbol.asyncDispose]: () => made.source.stop() };
  }

  /** Starts behind two messages that wait; where they would come in any order, the second is sent behind the first. */
  async function startedBehind(queue: string, first: () => Promise<unknown>, second: () => Promise<unknown>) {
    await first();
    if (how.unordered !== true) await second();
    const made = await started(queue);
    if (how.unordered !== true) return made;
    await until(() => made.desk.told.length === 1);
    await second();
    return made;
  }

  describe.skipIf(missing !== undefined)(`${name} as a source (${missing ?? "a real server"})`, () => {
    beforeAll(async () => void (upstream = await harness.start()));
    afterAll(async () => upstream?.[Symbol.asyncDispose]());

    describe("keeps the law of a source:", () => {
      describeLearning(async (given) => {
        const queue = await upstream.make();
        const send = (text: string) => upstream.send(queue, [text]);
        const heard = await how.overheard?.(queue, given);
        if (heard !== undefined) return { send, ...heard };
        const { source } = await opened(queue, undefined, given);
        const learned = async (said: readonly string[]): Promise<Learned | undefined> => {
          if ((await upstream.left(queue)) > 0) return undefined;
          return said.includes("a message is set aside") ? "refused" : "acknowledged";
        };
        return { source, send, learned };
      });
    });

    it("stores each message byte for byte under an id of its place, and acknowledges it", async () => {
      const queue = await upstream.make();
      const text = '{"type":"deposit:paid","keyId":"key_1","data":{"n":1.0,"big":12345678901234567890}}';
      const mine = JSON.stringify(paid({ id: "mine" }));
      await using made = await startedBehind(
        queue,
        () => upstream.send(queue, [text]),
        () => upstream.send(queue, [mine]),
      );
      await until(async () => made.desk.told.length === 2 && (await upstream.left(queue)) === 0);
      expect(made.desk.told.map(({ id }) => id)).toEqual([expect.stringMatching(how.firstId(queue)), "mine"]);
      expect(made.desk.told[0]?.body).toContain('{"n":1.0,"big":12345678901234567890}');
      expect(made.source.readiness?.()).toBeUndefined();
    });

    it("reads CloudEvents, as a payload and as headers", async () => {
      const queue = await upstream.make();
      const cloud = { specversion: "1.0", id: "c-1", source: "/shop", type: "order.placed", subject: "key_1" };
      const attributes = Object.entries({ ...cloud, id: "c-2" }).map(([key, value]) => [how.cloudPrefix + key, value]);
      await using made = await startedBehind(
        queue,
        () => upstream.send(queue, [JSON.stringify({ ...cloud, data: { total: 1 } })]),
        () => upstream.send(queue, ['{"total":2}'], Object.fromEntries(attributes) as Record<string, string>),
      );
      await until(() => made.desk.told.length === 2);
      expect(made.desk.told.map(({ id, type, keyId }) => [id, type, keyId])).toEqual([
        ["c-1:2fc4b7c299d7c1c8af31", "order.placed", "key_1"],
        ["c-2:2fc4b7c299d7c1c8af31", "order.placed", "key_1"],
      ]);
      expect(made.desk.told[1]?.body).toContain('"total":2');
    });

    it("takes CloudEvents of the same id for one event where they are of one source, and for two where not", async () => {
      const queue = await upstream.make();
      const cloud = { specversion: "1.0", id: "1", type: "deposit:paid", relaykeyid: "key_1", data: 1 };
      for (const source of ["/a", "/b", "/a"]) await upstream.send(queue, [JSON.stringify({ ...cloud, source })]);
      await using made = await started(queue, 1);
      const repeats = (): number => made.metrics.counted.get(`source_redelivered ${nameOf(queue)}`) ?? 0;
      await until(() => made.desk.told.length + repeats() === 3);
      const id = expect.stringMatching(/^1:[0-9a-f]{20}$/) as string;
      expect(made.desk.told.map((one) => one.id)).toEqual([id, id]);
      expect(made.log.lines.filter(({ message }) => message === "a message is set aside")).toEqual([]);
    });

    it("sets messages without a valid event aside with the reason, and stores those around them", async () => {
      const queue = await upstream.make();
      await upstream.send(queue, ["{", event(1), BAD, event(2)]);
      await using made = await started(queue);
      await until(async () => made.desk.told.length === 2 && (await upstream.left(queue)) === 0);
      await until(async () => (await upstream.dead(queue)).length === 2);
      const stored = [...ledger(made.desk.told).keys()];
      expect(how.unordered === true ? stored.toSorted() : stored).toEqual([1, 2]);
      const dead = await upstream.dead(queue);
      const logged = made.log.lines.filter(({ message }) => message === "a message is set aside");
      const codes = logged.map(({ fields }) => fields?.["code"]).toSorted();
      expect(codes).toEqual(["INVALID_JSON", "VALIDATION_FAILED"]);
      expect(dead.map(({ payload, code }) => (how.movesDead ? [payload] : [payload, code])).toSorted()).toEqual(
        [
          ["{", "INVALID_JSON"],
          [BAD, "VALIDATION_FAILED"],
        ]
          .map((one) => (how.movesDead ? one.slice(0, 1) : one))
          .toSorted(),
      );
      expect(made.metrics.counted.get(`source_dead_lettered ${nameOf(queue)}`)).toBe(2);
      expect(made.store.rows.size).toBe(0);
    });

    it("loses no such message while its dead-letter place refuses it, and stores those behind it", async () => {
      const queue = await upstream.make();
      const mend = await upstream.refuseDead(queue);
      const storage = shelf();
      await upstream.send(queue, ["{", BAD, event(1)]);
      const first = await opened(queue, undefined, { storage });
      await first.source.start(first.desk.intake.accept, fsync);
      await until(() => first.desk.told.length === 1);
      const kept = async (): Promise<number> => (await upstream.dead(queue)).length + storage.rows.size;
      const fault = /cannot be (set aside|written)|upstream was not told/;
      const says = (): boolean => first.log.lines.some(({ message }) => fault.test(message));
      if (how.deadSays === undefined) {
        await until(says);
        await first.source.stop();
        await mend();
        const second = await opened(queue, undefined, { storage });
        await second.source.start(second.desk.intake.accept, fsync);
        await until(async () => (await kept()) === 2);
        await second.source.stop();
      } else {
        await until(() => how.deadSays?.test(first.source.readiness?.() ?? "") === true);
        await mend();
        await until(async () => (await kept()) === 2);
        await until(() => first.source.readiness?.() === undefined);
        await first.source.stop();
      }
      expect(first.metrics.counted.get(`source_dead_lettered ${nameOf(queue)}`)).toBe(2);
    });

    it.runIf(how.waiting)("takes no more messages than it may hold while nothing can be stored", async () => {
      const queue = await upstream.make();
      await upstream.send(queue, events(20));
      const gate = Promise.withResolvers<void>();
      await using made = await started(queue, 5, (accept) => async (request) => (await gate.promise, accept(request)));
      const waiting = (): Promise<number> => how.waiting?.(queue) as Promise<number>;
      await until(async () => (await waiting()) <= 15);
      for (let looks = 0; looks < 20; looks++) expect(await waiting()).toBe(15);
      gate.resolve();
      await until(() => made.desk.told.length === 20);
    });

    it.runIf(how.missingSays)("says in /readyz that its queue is missing, and starts when it is there", async () => {
      const queue = await upstream.make();
      await how.remake?.drop(queue);
      await using made = await started(queue);
      await until(() => how.missingSays?.test(made.source.readiness?.() ?? "") === true);
      await how.remake?.add(queue);
      await upstream.send(queue, [event(1)]);
      await until(() => made.desk.told.length === 1);
      expect(made.source.readiness?.()).toBeUndefined();
    });

    it.runIf(how.remake)("reads what was deleted upstream and made again", async () => {
      const queue = await upstream.make();
      await using made = await started(queue, 1);
      await upstream.send(queue, [event(1)]);
      await until(() => made.desk.told.length === 1);
      await how.remake?.drop(queue);
      await how.remake?.add(queue);
      await upstream.send(queue, [event(2)]);
      await eventually("it is read", () => made.desk.told.length === 2, SEEN_MS);
      expect([...ledger(made.desk.told)]).toEqual([
        [1, 1],
        [2, 1],
      ]);
    });

    it.runIf(how.remake)("reads it also where it was made again while nothing could be stored", async () => {
      const queue = await upstream.make();
      const [called, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      await using made = await started(queue, 1, (accept) => async (request) => {
        called.resolve();
        await gate.promise;
        return accept(request);
      });
      await upstream.send(queue, [event(1)]);
      await called.promise;
      await how.remake?.drop(queue);
      await how.remake?.add(queue);
      await upstream.send(queue, [event(2)]);
      gate.resolve();
      await eventually("both are read", () => ledger(made.desk.told).size === 2, SEEN_MS);
    });

    it.runIf(how.stopsWithinMs)("stops soon, also while its server does not answer", async () => {
      const queue = await upstream.make();
      await using shim = await tcpShim(upstream.port);
      const plugin = upstream.from(upstream.options(queue, undefined, shim.port) as never);
      const send = () => upstream.send(queue, [event(1)]);
      expect(await stopWhileSilent(plugin, { send, silence: shim.swallow })).toBeLessThan(how.stopsWithinMs as number);
    });

    // RabbitMQ starts in it, which takes minutes on a busy machine.
    it("stores every message once when its server is killed in mid-stream", { timeout: 500_000 }, async () => {
      const queue = await upstream.make();
      const total = how.total ?? 3_000;
      await upstream.send(queue, events(total));
      let killed: Promise<void> | undefined;
      const told: { readonly body: string }[] = [];
      await using made = await started(queue, 50, (accept) => async (request) => {
        const answer = await accept(request);
        // Between the commit here and the acknowledgement there, once.
        if (told.length > 100) await (killed ??= upstream.server.kill());
        return answer;
      });
      const seen = () => told.push(...made.desk.told.slice(told.length));
      await until(() => (seen(), killed !== undefined));
      await killed;
      expect(made.desk.told.length).toBeLessThan(total);
      await eventually("the source notices", () => made.source.readiness?.() !== undefined, 60_000);
      await upstream.server.start();
      await upstream.dial?.();
      const state = () => `${made.desk.told.length} of ${total}, ${made.source.readiness?.() ?? "ready"}`;
      const isDone = async () =>
        made.desk.told.length >= total &&
        made.source.readiness?.() === undefined &&
        (await upstream.left(queue).catch(() => 1)) === 0;
      await eventually("all are stored", isDone, 300_000).catch((error: Error) => {
        throw new Error(`${error.message}: ${state()}`);
      });
      await made.source.stop();
      expect(await upstream.left(queue)).toBe(0);
      const counts = ledger(made.desk.told);
      expect(counts.size).toBe(total);
      expect([...counts.values()].every((times) => times === 1)).toBe(true);
    });

    harness.more(() => upstream);
  });
}

/** A source that was not started, over something to read that no other has. */
interface Learning {
  readonly source: Source;
  send(text: string): Promise<unknown>;
  /** Returns what upstream has learned; `undefined` while that is open. @param said the warnings of the log */
  learned(said: readonly string[]): Promise<Learned | undefined> | Learned | undefined;
}

/** Registers the law of every source: what upstream learns is seen at the system itself, and in the log. */
export function describeLearning(open: (given: Given) => Promise<Learning>): void {
  const benches = new WeakMap<object, { fate(): Promise<Learned>; again(): void }>();
  describeSource(it, {
    async open() {
      const said: string[] = [];
      const warn = (message: string): void => void said.push(message);
      // The wait before a message is offered again is long enough for the test to change the answer.
      const clock = pacedClock((ms) => (ms > 1_500 ? hasty(ms) : Math.min(ms, 300)));
      const made = await open({ clock, log: { debug: () => {}, info: () => {}, warn, error: warn } });
      let over = false;
      const fate = async (): Promise<Learned> => {
        let found: Learned | undefined;
        await until(async () => {
          const waits = over || said.some((message) => message.startsWith("a source waits"));
          found = waits ? "later" : await made.learned(said);
          return found !== undefined;
        });
        return found as Learned;
      };
      const under = {
        source: made.source,
        async publish(text: string) {
          await made.send(text);
          return await fate();
        },
        async [Symbol.asyncDispose]() {
          over = true;
          await made.source.stop();
        },
      };
      benches.set(under, { fate, again: () => void said.splice(0) });
      return under;
    },
    async again(under) {
      const bench = benches.get(under) ?? expect.fail();
      bench.again();
      return await bench.fate();
    },
  });
}
