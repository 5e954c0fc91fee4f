// Transforms in real processes: what they make is sent, and nothing that they do harms the relay or each other.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { CachedEvent } from "../../core/deliver/event-cache.ts";
import type { SentAttempt } from "../../core/deliver/send.ts";
import { deliveryBody } from "../../core/model/event.ts";
import type { Subscription } from "../../core/model/subscription.ts";
import type { TransformLimits } from "../../core/model/transform.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { TransformPool, type Transforms } from "../../core/runtime/transforms/transforms.ts";
import type { SpawnTransforms } from "../../core/runtime/transforms/worker.ts";
import { testFolder } from "../support/folder.ts";
import { quietLog, quietMetrics } from "../support/quiet.ts";
import { transformSpawner } from "../support/transform-spawner.ts";

const CONFIG = `
import { defineRelay } from "relaybox";
import inspector from "node:inspector";
const bag = [];
const read = process.env.TEST_PASSWORD;
let runs = 0;
const merge = (to, from) => {
  for (const key of Object.keys(from)) {
    if (typeof from[key] === "object") merge((to[key] ??= {}), from[key]);
    else to[key] = from[key];
  }
};
export default defineRelay({
  transforms: {
    slack: ({ type, data }, { subscriptionId }) => ({ text: \`\${type} \${data.n}\`, for: subscriptionId }),
    echo: (event) => event,
    loop: () => { for (;;); },
    pattern: () => ({ never: /^(a+)+$/.test("a".repeat(60) + "b") }),
    heap: () => { const all = []; for (;;) all.push(new Array(1000).fill({})); },
    atOnce: () => ({ all: new Array(2 ** 27).fill(0).length }),
    buffers: () => { const all = []; for (;;) all.push(new Uint8Array(1e7).fill(1)); },
    throws: ({ data }) => data.missing.amount,
    text: () => "text",
    huge: () => ({ text: "x".repeat(300_000) }),
    exit: () => process.exit(3),
    careless: ({ data }) => { merge({}, data); return {}; },
    polluted: () => ({ polluted: {}.polluted ?? null, text: String({}) }),
    count: () => ({ runs: ++runs }),
    secret: () => { throw new Error("it is hush-hush"); },
    timer: () => { setImmediate(() => { for (;;); }); return { ok: true }; },
    rest: async () => { await null; for (;;); },
    cut: () => { throw new Error("x".repeat(276) + " hush-hush"); },
    surroundings: () => ({ names: Object.keys(process.env), read }),
    debugged: () => ({ url: inspector.url() ?? null, pid: process.pid }),
    print: () => { console.log("x".repeat(1e6)); console.error("y".repeat(1e6)); return { printed: true }; },
  },
});`;
const NAMES = [...CONFIG.matchAll(/^ {4}(\w+):/gm)].map(([, name = ""]) => name);

const folder = testFolder();
beforeAll(() => writeFileSync(join(folder, "relay.config.ts"), CONFIG));
const spawn = await transformSpawner(folder);

/** A run takes longer on a busy machine: only what never ends is to run into this. */
const LIMITS: TransformLimits = { timeoutMs: 4_000, memoryMb: 64, workers: 2 };
const NEVER = new AbortController().signal;
const TURN = { cycle: 0, number: 1 };

interface Rig extends AsyncDisposable {
  readonly transforms: Transforms;
  readonly log: ReturnType<typeof quietLog>;
  readonly metrics: ReturnType<typeof quietMetrics>;
  readonly pids: readonly number[];
  run(name: string, data?: unknown, subscriptionId?: string, signal?: AbortSignal): Promise<Result>;
}
interface Result {
  readonly body?: unknown;
  readonly detail?: string | undefined;
  readonly ms?: number;
}

function rig(limits: Partial<TransformLimits> = {}, from: SpawnTransforms = spawn): Rig {
  const log = quietLog();
  const metrics = quietMetrics();
  const pids: number[] = [];
  const transforms = new TransformPool({
    spawn(given) {
      const child = from(given);
      if (child.pid !== undefined) pids.push(child.pid);
      return child;
    },
    names: NAMES,
    limits: { ...LIMITS, ...limits },
    concurrency: 512,
    hide: (text) => text.replaceAll("hush-hush", "***"),
    clock: systemClock(),
    log,
    metrics,
  });
  return {
    transforms,
    log,
    metrics,
    pids,
    async run(name, data = { n: 1 }, id = "sub_1", signal = NEVER) {
      const text = deliveryBody(
        "evt_1",
        "deposit:paid",
        "key_1",
        0,
        typeof data === "string" ? data : JSON.stringify(data),
      );
      const sub = { id, transform: name } as Subscription;
      const made = await transforms.transform(sub, { event: { body: text } } as CachedEvent, TURN, signal);
      if (typeof made === "number") return { ms: made };
      if ("reply" in made) return { detail: (made as SentAttempt).attempt.detail };
      return { body: JSON.parse(Buffer.from(made.body).toString()) as unknown };
    },
    [Symbol.asyncDispose]: () => transforms.stop(),
  };
}

const alive = (pid: number): boolean => existsSync(`/proc/${pid}`);

let made: Rig;
beforeAll(() => {
  made = rig();
});
afterAll(() => made[Symbol.asyncDispose]());

describe("a transform", () => {
  it("gets the event and its subscription, and what it returns is the body", async () => {
    expect(await made.run("slack", { n: 7 }, "sub_7")).toEqual({ body: { text: "deposit:paid 7", for: "sub_7" } });
    expect(await made.run("echo", '{"__proto__":{"x":1},"n":1e2}')).toEqual({
      body: JSON.parse(deliveryBody("evt_1", "deposit:paid", "key_1", 0, '{"__proto__":{"x":1},"n":100}')) as unknown,
    });
  });

  it("runs in one process as long as that is enough, and none runs before the first is needed", async () => {
    await using own = rig();
    expect(own.pids).toEqual([]);
    for (let i = 1; i <= 5; i++) expect(await own.run("count")).toEqual({ body: { runs: i } });
    expect(own.pids).toHaveLength(1);
  });

  it("is counted by what became of its runs", async () => {
    await using own = rig();
    for (const name of ["count", "count", "throws"]) await own.run(name);
    expect([...own.metrics.counted]).toEqual([
      ["transforms made", 2],
      ["transforms failed", 1],
    ]);
  });

  it.each([
    ["throws", "throws threw TypeError: Cannot read properties of undefined (reading 'amount')"],
    ["text", "text returned string, not an object"],
    ["huge", "huge returned 300011 bytes: a body has at most 262144"],
    ["secret", "secret threw Error: it is ***"],
    ["cut", `cut threw Error: ${"x".repeat(276)} ***`],
    ["missing", "missing is not in the config any more"],
    ["__proto__", "__proto__ is not in the config any more"],
  ])("that makes no body says why: %s", async (name, detail) => {
    expect(await made.run(name)).toEqual({ detail });
  });

  it("has an environment without secrets, which the config saw while it was read", async () => {
    const own = testFolder();
    writeFileSync(join(own, "relay.config.ts"), CONFIG);
    const env = { ...process.env, RELAY_MASTER_KEY: "m", RELAY_TOKEN_FILE: "/f", TEST_PASSWORD: "p", LANG: "C" };
    await using one = rig({}, await transformSpawner(own, env));
    const { body } = await one.run("surroundings");
    const { names, read } = body as { names: string[]; read: string };
    expect(read).toBe("p");
    expect(names).toEqual(expect.arrayContaining(["PATH", "LANG"]));
    expect(names.filter((name) => /^RELAY_|^TEST_|SECRET|TOKEN|^npm_|^VITEST/.test(name))).toEqual([]);
    const started = readFileSync(`/proc/${one.pids[0]}/environ`, "utf8");
    expect(started).not.toMatch(/RELAY_MASTER_KEY|TEST_PASSWORD/);
  });

  it("is opened to no debugger by SIGUSR1", async () => {
    await using one = rig();
    const { body } = await one.run("debugged");
    process.kill((body as { pid: number }).pid, "SIGUSR1");
    for (let i = 0; i < 5; i++) expect((await one.run("debugged")).body).toEqual({ ...(body as object), url: null });
  });

  it("may print what it likes: it goes nowhere", async () => {
    expect(await made.run("print")).toEqual({ body: { printed: true } });
  });

  it("cannot change what the next event meets, whatever the data is", async () => {
    const hostile = '{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":2}}}';
    const { detail } = await made.run("careless", hostile);
    expect(detail).toContain("careless threw TypeError");
    expect((await made.run("careless", '{"constructor":{"prototype":{"toString":1}}}')).detail).toContain("TypeError");
    expect(await made.run("polluted", {}, "sub_2")).toEqual({ body: { polluted: null, text: "[object Object]" } });
  });

  it("that ends its process, or fills the memory, fails alone; the next one finds a new process", async () => {
    expect(await made.run("exit")).toEqual({ detail: "exit ended its process (exit 3)" });
    expect(await made.run("slack")).toMatchObject({ body: { text: "deposit:paid 1" } });
  });

  it.each(["heap", "atOnce", "buffers"])(
    "that wants all memory is stopped, and its process alone: %s",
    async (name) => {
      await using own = rig({ timeoutMs: 30_000 });
      expect(await own.run(name)).toEqual({ detail: `${name} used more than 64 MiB of memory` });
      expect(await own.run("slack")).toMatchObject({ body: { text: "deposit:paid 1" } });
      expect(own.pids.filter(alive).length).toBeLessThanOrEqual(2);
    },
  );

  it.each(["loop", "pattern"])("that never ends is killed when its time is over: %s", async (name) => {
    await using own = rig({ timeoutMs: 500 });
    expect(await own.run(name)).toEqual({ detail: `${name} took longer than 500 ms` });
    expect(alive(own.pids[0] as number)).toBe(false);
    expect((await own.run("polluted", {}, "sub_2")).body ?? {}).toMatchObject({ polluted: null });
  });

  it.each(["timer", "rest"])("is not blamed for what another left behind: %s", async (name) => {
    await using own = rig({ timeoutMs: 1_500 });
    await own.run(name);
    expect((await own.run("slack", {}, "sub_2")).body).toBeDefined();
    expect(own.metrics.counted.get("transforms again")).toBe(1);
    expect(own.metrics.counted.get("transforms timeout")).toBeUndefined();
  });

  it("that is asked for no longer is not waited for", async () => {
    await using own = rig();
    const over = new AbortController();
    const loop = own.run("loop", {}, "sub_1", over.signal);
    const waiting = own.run("loop", {}, "sub_1", over.signal);
    over.abort(new Error("the subscription is deleted"));
    await expect(loop).rejects.toThrow("the subscription is deleted");
    await expect(waiting).rejects.toThrow("the subscription is deleted");
  });

  it("of one subscription never holds up those of others, however many of its runs never end", async () => {
    await using own = rig({ timeoutMs: 5_000 });
    // Their time goes by the clock: on a busy machine the good ones take longer, and the hostile ones do not.
    const HOSTILE = 48;
    // Both processes are there and warm, and it is known who is quick and who is slow.
    for (let i = 0; i < 8; i++) await Promise.all([own.run("slack", {}, "good"), own.run("slack", {}, "fine")]);
    await own.run("loop", {}, "hostile_0");
    let ended = 0;
    const hostile = Array.from({ length: HOSTILE }, (_, i) => own.run("loop", {}, `hostile_${i}`).then(() => ended++));
    for (let i = 0; i < 8; i++) expect((await own.run("slack", { n: i }, "good")).body).toBeDefined();
    // One after the other they took less time than the hostile ones, which were all there before.
    expect(ended).toBeLessThan(HOSTILE);
    await own.transforms.stop();
    await Promise.all(hostile);
  }, 120_000);
});

describe("the config of transforms", () => {
  it("is read again after a reload, and the functions are those that it has then", async () => {
    const own = testFolder();
    const file = join(own, "relay.config.ts");
    const write = (body: string): void => writeFileSync(file, `export default { transforms: { ${body} } };`);
    write("slack: () => ({ edition: 1 })");
    await using one = rig({}, await transformSpawner(own));
    expect(await one.run("slack")).toEqual({ body: { edition: 1 } });
    write("slack: () => ({ edition: 2 }), teams: () => ({ teams: true })");
    expect(await one.run("slack")).toEqual({ body: { edition: 1 } });
    one.transforms.reload(["slack", "teams"]);
    expect(one.transforms.names()).toEqual(["slack", "teams"]);
    expect(await one.run("slack")).toEqual({ body: { edition: 2 } });
    expect(await one.run("teams")).toEqual({ body: { teams: true } });
    one.transforms.reload(["teams"]);
    expect(await one.run("slack")).toEqual({ detail: "slack is not in the config any more" });
  });

  it("that cannot be read makes no attempt fail: deliveries wait, and the log says why", async () => {
    const own = testFolder();
    const file = join(own, "relay.config.ts");
    writeFileSync(file, 'throw new Error("half saved");');
    await using one = rig({}, await transformSpawner(own));
    expect((await one.run("slack")).ms).toBeGreaterThan(0);
    expect((await one.run("slack")).ms).toBeGreaterThan(0);
    expect(one.pids).toHaveLength(1);
    const [line] = one.log.lines.filter(({ message }) => message.includes("transforms of the config"));
    expect(JSON.stringify(line)).toContain("half saved");
    writeFileSync(file, "export default { transforms: { slack: () => ({ ok: true }) } };");
    one.transforms.reload(["slack"]);
    expect(await one.run("slack")).toEqual({ body: { ok: true } });
  });

  it("waits where the machine has no memory for another process", async () => {
    let refused = 0;
    await using one = rig({}, (limits) => {
      if (refused++ === 0) throw new Error("spawn ENOMEM");
      return spawn(limits);
    });
    expect((await one.run("slack")).ms).toBeGreaterThan(0);
    expect(JSON.stringify(one.log.lines)).toContain("spawn ENOMEM");
    one.transforms.reload(NAMES);
    expect((await one.run("slack")).body).toBeDefined();
  });
});
