/** The path on memory storage, a clock moved by hand and a transport that answers as told: for tests of the flow. */
import { FANOUT_BOUNDS, type FanoutBounds } from "../../core/publish/write-event.ts";
import type { EventStatus } from "../../core/model/delivery.ts";
import type { Log, Metrics, Plugin } from "../../core/ports/plugin.ts";
import type { Subscription } from "../../core/model/subscription.ts";
import type { Storage } from "../../core/ports/storage.ts";
import type { Reply, Transport, TransportRequest } from "../../core/ports/transport.ts";
import { makeKeys } from "../../core/runtime/keys/keyring.ts";
import { nullMetrics } from "../../core/runtime/observability/index.ts";
import { composePath, type DeliveryPath } from "../../core/runtime/compose/path.ts";
import type { Observer } from "../../core/ports/observer.ts";
import type { Transforms } from "../../core/runtime/transforms/transforms.ts";
import type { HealthOptions, Plan } from "../../core/ports/plan.ts";
import { memory } from "../../plugins/storage/memory.ts";
import { testClock, type TestClock } from "./clock.ts";

export const replied = (status: number, more: Partial<Extract<Reply, { kind: "response" }>> = {}): Reply => ({
  kind: "response",
  status,
  excerpt: new Uint8Array(),
  truncated: false,
  ...more,
});

export type Answer = Reply | ((request: TransportRequest, signal: AbortSignal) => Promise<Reply>);

export interface PathOptions {
  readonly clock?: TestClock;
  readonly storage?: Storage;
  readonly retry?: Partial<Plan["retry"]>;
  readonly delivery?: Partial<Plan["delivery"]>;
  readonly health?: HealthOptions | false;
  readonly log?: Log;
  readonly metrics?: Metrics;
  readonly fanout?: Partial<FanoutBounds>;
  readonly observers?: readonly Observer[];
  /** Most subscriptions of one key. @default 50 */
  readonly perKey?: number;
  readonly transforms?: Transforms;
  readonly notify?: Partial<Plan["notify"]>;
}

export interface TestPath extends AsyncDisposable {
  /** The rooms of the path, as a relay composes them. */
  readonly parts: DeliveryPath;
  readonly clock: TestClock;
  readonly storage: Storage;
  /** Every request on the wire, in order. */
  readonly sent: TransportRequest[];
  /** Answers for the next requests, then `otherwise`. */
  answers: Answer[];
  otherwise: Answer;
  /** Resolves when at least `count` requests were sent. */
  whenSent(count: number): Promise<void>;
  /** The same once what came of them is stored, without moving time. */
  answered(count: number): Promise<void>;
  subscribe(events?: readonly string[], keyId?: string, url?: string): Promise<string>;
  /** Subscribes and starts. */
  open(): Promise<string>;
  publish(type?: string, more?: Record<string, unknown>): Promise<string>;
  /** Subscribes, starts, publishes one event, and resolves when the answer to its first attempt is stored. */
  deliver(...answers: readonly Answer[]): Promise<string>;
  /** Returns a subscription of `key_1` that there must be. */
  subscription(id: string): Promise<Subscription>;
  status(eventId: string): Promise<EventStatus>;
  start(): Promise<void>;
}

const ACTOR = { sub: "tester" };
const key = Buffer.alloc(32, 7).toString("base64");

export async function testPath(options: PathOptions = {}): Promise<TestPath> {
  const clock = options.clock ?? testClock();
  const log = options.log ?? { debug() {}, info() {}, warn() {}, error() {} };
  const plugin: Plugin<"storage", Storage> = memory();
  const storage = options.storage ?? (await plugin.setup({ clock, log, metrics: nullMetrics } as never));
  const sent: TransportRequest[] = [];
  const waiting: { readonly count: number; readonly tell: () => void }[] = [];
  const plan = {
    retry: { attempts: 5, firstDelayMs: 5_000, factor: 4, maxDelayMs: 3_600_000, ...options.retry },
    delivery: { timeoutMs: 10_000, concurrency: 512, holdMs: 30_000, ...options.delivery },
    health: options.health ?? false,
    intake: { maxPending: 0, maxPendingPerKey: 0, maxBodyBytes: 67_108_864 },
    signature: { ed25519: false, headers: {} },
    subscriptions: { perKey: options.perKey ?? 50 },
    notify: { to: [], pending: 0, pendingPerKey: 0, ...options.notify },
  } as Plan;

  const transport: Transport = {
    schemes: ["https"],
    async send(request, signal) {
      sent.push(request);
      for (const { count, tell } of waiting.splice(0)) {
        if (sent.length >= count) tell();
        else waiting.push({ count, tell });
      }
      const answer = test.answers.shift() ?? test.otherwise;
      return typeof answer === "function" ? await answer(request, signal) : answer;
    },
    dispose: () => Promise.resolve(),
  };
  const parts = composePath({
    plan,
    clock,
    log,
    metrics: options.metrics ?? nullMetrics,
    keys: makeKeys({ master: key, signing: key, publishToken: "t" }),
    guard: { register: (href: string) => Promise.resolve({ ok: true, href }) } as never,
    storage,
    transports: [transport],
    observers: options.observers ?? [],
    fanoutBounds: { ...FANOUT_BOUNDS, ...options.fanout },
    transforms: options.transforms,
  });
  const test: TestPath = {
    parts,
    clock,
    storage,
    sent,
    answers: [],
    otherwise: replied(200),
    whenSent: (count) =>
      sent.length >= count ? Promise.resolve() : new Promise((tell) => waiting.push({ count, tell })),
    async subscribe(events = ["deposit:paid"], keyId = "key_1", url = "https://receiver.example/hook") {
      const made = await parts.subscriptions.create(keyId, { url, events }, ACTOR);
      return made.subscription.id;
    },
    async publish(type = "deposit:paid", more = {}) {
      const text = JSON.stringify({ type, keyId: "key_1", data: { n: 1 }, ...more });
      const [accepted] = await parts.publisher.accept({ publications: [{ text, path: "" }], source: "test" });
      return accepted?.id as string;
    },
    async answered(count) {
      await test.whenSent(count);
      await clock.advance(0);
    },
    async open() {
      const sub = await test.subscribe();
      await test.start();
      return sub;
    },
    async deliver(...answers) {
      test.answers.push(...answers);
      await test.open();
      const id = await test.publish();
      await test.answered(1);
      return id;
    },
    async subscription(id) {
      const found = await parts.subscriptionCache.get("key_1", id);
      if (found === undefined) throw new Error(`there is no subscription ${id}`);
      return found;
    },
    async status(eventId) {
      const page = await parts.history.events("key_1", {}, { limit: 200 });
      return page.items.find((item) => item.event.id === eventId)?.status as EventStatus;
    },
    async start() {
      await parts.circuitBreaker.start();
      await parts.sweeper.start();
      parts.dispatcher.start();
    },
    async [Symbol.asyncDispose]() {
      await parts.sweeper.stop();
      await parts.eventErasure.stop();
      await parts.keyErasure.stop();
      await parts.noticeWatch.stop();
      await parts.dispatcher.stop(0);
      await parts.away.stop();
    },
  };

  return test;
}

/** From here on nothing that a lease settles is stored before `letGo` is called. */
export function holdSettles({ queue }: { readonly queue: Storage["queue"] }): { letGo(): void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  const settle = queue.settle.bind(queue);
  queue.settle = async (...args) => {
    await promise;
    return settle(...args);
  };
  return { letGo: resolve };
}
