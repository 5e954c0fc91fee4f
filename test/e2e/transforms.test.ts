// Transforms of a relay as an operator runs it: over TLS, signed as sent, and hostile ones harm nobody else.
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { verifyHex } from "../../core/signing/verify.ts";
import { startChild, type ChildOptions, type ChildRelay } from "../support/child-relay.ts";
import { testFolder } from "../support/folder.ts";
import { eventually } from "../support/until.ts";
import { startReceiver } from "../support/receiver.ts";

const TRANSFORMS = `transforms: {
    slack: ({ type, data }: any) => ({ text: \`\${type}: \${data.n}\` }),
    loop: () => { for (;;); },
    bomb: () => { const all: unknown[] = []; for (;;) all.push(new Array(1000).fill({})); },
    atOnce: () => ({ all: new Array(2 ** 27).fill(0).length }),
    throws: () => { throw new Error("always"); },
  },`;
/** A time that a good run keeps on a busy machine too. */
const LIMITS = "transformLimits: { timeoutMs: 4_000 }, retry: { attempts: 2, firstDelayMs: 20, maxDelayMs: 20 },";

const start = (folder: string, config = "", more: ChildOptions = {}): Promise<ChildRelay> =>
  startChild(folder, { ...more, config: `${TRANSFORMS} ${LIMITS} ${config}` });

const publish = (relay: ChildRelay, id: string, type = "order.paid") =>
  relay.publish({ type, keyId: "key_1", id, data: { n: id } });

interface Delivery {
  readonly subscriptionId: string;
  readonly status: string;
  readonly attempts: readonly { readonly error?: string; readonly detail?: string; readonly transform?: string }[];
}

async function deliveries(relay: ChildRelay, eventId: string): Promise<readonly Delivery[]> {
  const { json } = await relay.call("GET", `/api-keys/key_1/events/${eventId}`);
  return (json?.data?.deliveries ?? []) as readonly Delivery[];
}

async function ended(relay: ChildRelay, eventId: string): Promise<readonly Delivery[]> {
  let all: readonly Delivery[] = [];
  await eventually(
    `${eventId} has ended`,
    async () => {
      all = await deliveries(relay, eventId);
      return all.length > 0 && all.every(({ status }) => status !== "pending");
    },
    120_000,
  );
  return all;
}

/** Processes of the relay that run transforms. */
const workersOf = (pid: number): readonly number[] =>
  readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((other) => {
      try {
        const [, parent] = /^PPid:\s+(\d+)$/m.exec(readFileSync(`/proc/${other}/status`, "utf8")) ?? [];
        return Number(parent) === pid && readFileSync(`/proc/${other}/cmdline`, "utf8").includes("transform-entry");
      } catch {
        return false;
      }
    });

describe("transforms, end to end", () => {
  it("make bodies that the receiver can verify; replays are made again; a removed one fails, the rest goes on", async () => {
    const folder = testFolder();
    await using receiver = await startReceiver();
    const slack = await (async () => {
      await using relay = await start(folder);
      expect(workersOf(relay.pid)).toEqual([]);
      const made = await relay.subscribe(receiver.url("/slack"), { transform: "slack" });
      await relay.subscribe(receiver.url("/plain"));
      await publish(relay, "first");
      await receiver.waitFor(2, 60_000);
      const got = receiver.requests.find(({ path }) => path === "/slack");
      expect(String(got?.body)).toBe('{"text":"order.paid: first"}');
      expect(verifyHex(got?.body as Buffer, got?.headers ?? {}, made.secret)).toBe(true);
      expect(JSON.parse(String(receiver.requests.find(({ path }) => path === "/plain")?.body))).toMatchObject({
        id: "first",
        data: { n: "first" },
      });
      await ended(relay, "first");
      const replayed = await relay.call("POST", "/api-keys/key_1/events/first/replay", {
        subscriptionId: made.id,
        force: true,
      });
      expect(replayed.status, JSON.stringify(replayed.json)).toBeLessThan(300);
      const [, , again] = await receiver.waitFor(3, 60_000);
      expect([again?.path, String(again?.body)]).toEqual(["/slack", '{"text":"order.paid: first"}']);
      const shown = await relay.call("GET", "/api-keys/key_1/events/first");
      expect(shown.json.data.data).toEqual({ n: "first" });
      return made;
    })();
    // The same data, and a config without the transform.
    await using relay = await startChild(folder, { config: LIMITS });
    await publish(relay, "second");
    const all = await ended(relay, "second");
    expect(all.map(({ status }) => status).toSorted()).toEqual(["delivered", "failed"]);
    const failed = all.find(({ subscriptionId }) => subscriptionId === slack.id);
    expect(failed?.attempts).toMatchObject([
      { error: "transform", detail: "slack is not in the config any more", transform: "slack" },
      { error: "transform" },
    ]);
  }, 240_000);

  it("that loop, fill the memory or throw fail alone, others are delivered meanwhile, and a kill leaves no process of theirs", async () => {
    const folder = testFolder();
    await using receiver = await startReceiver();
    await using relay = await start(folder);
    const hostile = ["loop", "bomb", "atOnce", "throws"];
    for (const name of hostile) await relay.subscribe(receiver.url(`/${name}`), { transform: name });
    await relay.subscribe(receiver.url("/slack"), { transform: "slack" });
    await relay.subscribe(receiver.url("/plain"));
    for (let i = 0; i < 10; i++) expect((await publish(relay, `event_${i}`)).status).toBe(202);
    await eventually(
      "all good ones are delivered",
      () => {
        const paths = receiver.requests.map(({ path }) => path);
        return ["/slack", "/plain"].every((path) => paths.filter((one) => one === path).length === 10);
      },
      120_000,
    );
    // All hostile ones together would have taken longer: ten events, two attempts, four seconds each.
    const pending = (await deliveries(relay, "event_9")).filter(({ status }) => status === "pending");
    expect(pending.length).toBeGreaterThan(0);
    await eventually(
      "each hostile one was tried",
      async () => {
        const all = await deliveries(relay, "event_0");
        return all.every(({ attempts }) => attempts.length > 0);
      },
      120_000,
    );
    const details = (await deliveries(relay, "event_0")).flatMap(({ attempts }) => attempts[0]?.detail ?? []);
    expect(details.toSorted()).toEqual([
      expect.stringMatching(/^atOnce (used more than 64 MiB|took longer than 4000 ms)/),
      expect.stringMatching(/^bomb (used more than 64 MiB|took longer than 4000 ms)/),
      "loop took longer than 4000 ms",
      "throws threw Error: always",
    ]);
    expect(receiver.requests.map(({ path }) => path)).not.toContain("/loop");
    expect(workersOf(relay.pid).length).toBeLessThanOrEqual(2);
    expect((await relay.call("GET", "/transforms")).status).toBe(200);
    // They go on for seconds. Killed in the middle of them, the relay leaves no process behind.
    await eventually("one runs", () => workersOf(relay.pid).length > 0, 60_000);
    const workers = workersOf(relay.pid);
    await relay.kill();
    await eventually("no process is left", () => !workers.some((pid) => existsSync(`/proc/${pid}`)), 60_000);
  }, 300_000);

  it("are read again at SIGHUP, also under the same name", async () => {
    const folder = testFolder();
    await using receiver = await startReceiver();
    await using relay = await start(folder, 'log: { level: "info" },');
    await relay.subscribe(receiver.url("/slack"), { transform: "slack" });
    await publish(relay, "first");
    await receiver.waitFor(1, 60_000);
    const file = join(folder, "relay.config.ts");
    const text = readFileSync(file, "utf8");
    writeFileSync(
      file,
      text.replace(
        "slack: ({ type, data }: any) =>",
        "teams: () => ({}), slack: () => ({ edition: 2 }), old: ({ type, data }: any) =>",
      ),
    );
    process.kill(relay.pid, "SIGHUP");
    await relay.running.waitFor(/the config is reloaded/);
    await publish(relay, "second");
    const [, second] = await receiver.waitFor(2, 60_000);
    expect(String(second?.body)).toBe('{"edition":2}');
    const names = (await relay.call("GET", "/transforms")).json.data as readonly { readonly name: string }[];
    expect(names.map(({ name }) => name)).toContain("teams");
  }, 240_000);
});
