// The process is killed at each step of what it does: nothing that was acknowledged is lost, and nothing is done by half.
import { describe, expect, it } from "vitest";
import { verifyHex, verifyStandard } from "../../core/signing/verify.ts";
import { startChild, type ChildOptions, type ChildRelay } from "../support/child-relay.ts";
import { testFolder } from "../support/folder.ts";
import { inject } from "../support/injected.ts";
import { needs } from "../support/needs.ts";
import { startReceiver, type Received, type ReceiverOptions } from "../support/receiver.ts";
import { eventually, until } from "../support/until.ts";

const missing = needs("strace");
const KEY = "/api-keys/key_1";
const EVENT = { type: "deposit:paid", keyId: "key_1", id: "order:1", data: { n: 1 } };
const RETRY = { config: "retry: { attempts: 5, firstDelayMs: 1500, factor: 1, maxDelayMs: 1500 }," };

interface Attempt {
  readonly number: number;
}
interface Delivery {
  readonly status: string;
  readonly reason?: string;
  readonly attempts: readonly Attempt[];
}
const deliveryOf = async (relay: ChildRelay, id = EVENT.id): Promise<Delivery | undefined> =>
  (await relay.event(id))?.deliveries[0];
const numbers = (delivery?: Delivery): readonly number[] | undefined => delivery?.attempts.map(({ number }) => number);

/** A relay with a receiver, and its next life on the same folder. */
async function life(answers: ReceiverOptions = {}, options: ChildOptions = {}, more: object = {}) {
  await using made = new AsyncDisposableStack();
  const receiver = made.use(await startReceiver(answers));
  const folder = testFolder();
  const start = async (): Promise<ChildRelay> => made.use(await startChild(folder, options));
  const first = await start();
  const hook = await first.subscribe(receiver.url(), more);
  const all = made.move();
  return {
    receiver,
    first,
    hook,
    again: async () => all.use(await startChild(folder, options)),
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}

async function delivered(relay: ChildRelay): Promise<Delivery> {
  let shown: Delivery | undefined;
  await until(async () => (shown = await deliveryOf(relay))?.status === "delivered");
  return shown as Delivery;
}

describe.concurrent("a relay killed", () => {
  it("before the commit has answered nothing, and the publisher's repeat is delivered once", async ({ skip }) => {
    skip(missing !== undefined, missing);
    await using own = await life();
    const { first, receiver } = own;
    await using _ = await inject(first.pid, "signal=SIGKILL:when=1");
    await expect(first.publish(EVENT)).rejects.toThrow();
    await first.running.ended;
    const second = await own.again();
    expect((await second.publish(EVENT)).status).toBe(202);
    await receiver.waitFor(1);
    expect((await delivered(second)).attempts).toHaveLength(1);
    expect(receiver.requests).toHaveLength(1);
  });

  it("between commit and 202 delivers what it stored, and answers the repeat as a duplicate", async ({ skip }) => {
    skip(missing !== undefined, missing);
    await using own = await life();
    const { first, receiver } = own;
    // The sync itself is done; the process would hear of it seconds later, and does not live to.
    await using injected = await inject(first.pid, "delay_exit=60000000:when=1");
    const publishing = first.publish(EVENT).then(
      () => "answered",
      () => "cut off",
    );
    await injected.delayed;
    await injected.kill();
    expect(await publishing).toBe("cut off");
    const second = await own.again();
    await receiver.waitFor(1);
    expect((await second.publish(EVENT)).json.data).toMatchObject({ duplicate: true });
    await delivered(second);
    expect(receiver.requests).toHaveLength(1);
  });

  it("in mid-attempt makes that attempt again under its own number", async () => {
    await using own = await life({ script: [{ do: "hang" }] });
    const { first, receiver } = own;
    expect((await first.publish(EVENT)).status).toBe(202);
    await receiver.waitFor(1);
    await first.kill();
    const second = await own.again();
    await receiver.waitFor(2);
    expect(numbers(await delivered(second))).toEqual([1]);
    expect(receiver.requests.map((request) => request.headers["x-relay-attempt"])).toEqual(["1", "1"]);
    expect(receiver.requests[0]?.body).toEqual(receiver.requests[1]?.body);
  });

  it("between the reply and its record makes at most one more request, under the same number", async ({ skip }) => {
    skip(missing !== undefined, missing);
    await using own = await life({ script: [{ do: "reply", status: 500, delayMs: 300 }] }, RETRY);
    const { first, receiver } = own;
    expect((await first.publish(EVENT)).status).toBe(202);
    await receiver.waitFor(1);
    // From here on a commit dies at its sync: the reply comes, its record does not.
    await using _ = await inject(first.pid, "signal=SIGKILL:when=1");
    await first.running.ended;
    const second = await own.again();
    await receiver.waitFor(2);
    const { attempts } = await delivered(second);
    expect(attempts.length).toBeLessThanOrEqual(2);
    expect(["1", "2"]).toContain(receiver.requests[1]?.headers["x-relay-attempt"]);
    expect(Number(receiver.requests[1]?.headers["x-relay-attempt"])).toBe(attempts.length);
  });

  it("between attempts goes on with the attempts that are left, not before their time", async () => {
    await using own = await life({ script: [500] }, RETRY);
    const { first, receiver } = own;
    await first.publish(EVENT);
    await until(async () => numbers(await deliveryOf(first))?.length === 1);
    await first.kill();
    const second = await own.again();
    await receiver.waitFor(2);
    expect(numbers(await delivered(second))).toEqual([1, 2]);
    expect((receiver.requests[1]?.at ?? 0) - (receiver.requests[0]?.at ?? 0)).toBeGreaterThanOrEqual(1_400);
  });

  it("while pending deliveries are tried and cancelled keeps what it has answered, and leaves nothing half done", async () => {
    const retry = { attempts: 5, firstDelayMs: 3_600_000, factor: 1, maxDelayMs: 3_600_000 };
    // The 24 failures of the first attempts open no circuit breaker, which would hold up the second ones for a minute.
    const options = { config: "health: { breakerAfter: 1000000 }," };
    await using own = await life({ otherwise: 500 }, options, { retry });
    const { first, hook } = own;
    const ids = Array.from({ length: 24 }, (_, n) => `order:${n}`);
    expect((await first.publish(ids.map((id) => ({ ...EVENT, id })))).status).toBe(202);
    for (const id of ids) await until(async () => numbers(await deliveryOf(first, id))?.length === 1);

    const answered = new Map<string, number>();
    const anyone = Promise.withResolvers<void>();
    const acts = ids.map(async (id, n) => {
      const act = n % 2 === 0 ? "cancel" : "attempt";
      // Those that are cut off have no answer.
      const answer = await first
        .call("POST", `${KEY}/events/${id}/deliveries/${hook.id}/${act}`)
        .catch(() => undefined);
      if (answer !== undefined) answered.set(id, answer.status);
      anyone.resolve();
    });
    await anyone.promise;
    await first.kill();
    await Promise.all(acts);

    const second = await own.again();
    const audit: readonly { action: string; target: string }[] = (await second.call("GET", `${KEY}/audit?limit=200`))
      .json.data;
    const lines = (action: string): ReadonlySet<string> =>
      new Set(audit.filter((line) => line.action === action).map(({ target }) => target));
    const [cancelled, tried] = [lines("delivery.cancelled"), lines("delivery.tried")];
    for (const [n, id] of ids.entries()) {
      const was = n % 2 === 0 ? cancelled : tried;
      if (answered.get(id) === 204) expect(was.has(id), `${id} was answered`).toBe(true);
      if (n % 2 === 0) {
        const delivery = await deliveryOf(second, id);
        const ended = { status: "cancelled", reason: "cancel_requested" };
        expect(delivery).toMatchObject(cancelled.has(id) ? ended : { status: "pending" });
        expect(delivery?.attempts).toHaveLength(1);
        continue;
      }
      // One that was made due is tried, now or before the kill; the rest waits for its hour.
      const made = async () => numbers(await deliveryOf(second, id));
      if (tried.has(id)) await until(async () => (await made())?.length === 2);
      expect(await made()).toEqual(tried.has(id) ? [1, 2] : [1]);
    }
  });

  it("tells a chat no notice a second time", async () => {
    await using chat = await startReceiver();
    const config = `
      transforms: { chat: ({ type, data }: any) => ({ text: type + " " + data.keyId }) },
      notify: { to: [{ url: "${chat.url()}", transform: "chat" }] },
      health: { breakerAfter: 2, breakerPauseMs: 20, breakerMaxPauseMs: 20 }, retry: { attempts: 1 },`;
    // A kill may come before the answer of the chat is stored: then the same event comes again, with the same id.
    const heard = (): readonly string[] => {
      const byId = new Map(chat.requests.map(({ headers, body }) => [headers["webhook-id"], body.toString()]));
      return [...byId.values()].map((body) => (JSON.parse(body) as { text: string }).text).toSorted();
    };
    await using own = await life({ otherwise: 500 }, { config });
    const targets = async () => (await own.first.call("GET", "/api-keys/relay:operator/webhooks")).json.data.length;
    await eventually("the target is a subscription", async () => (await targets()) === 1);
    for (const start of [async () => own.first, own.again]) {
      const relay = await start();
      const before = own.receiver.requests.length;
      for (let i = 0; i < 12; i++) await relay.publish({ type: "deposit:paid", keyId: "key_1", data: {} });
      await own.receiver.waitFor(before + 12);
      await eventually("both have arrived", () => heard().length >= 2);
      await relay.kill();
      expect(heard()).toEqual(["relay:breaker.opened key_1", "relay:subscription.failing key_1"]);
    }
  });
});

describe.concurrent("a rotation that is cut off", () => {
  const rotate = (relay: ChildRelay, id: string) => relay.call("POST", `${KEY}/webhooks/${id}/rotate-secret`);
  /** How it is cut off; resolves to the secrets that it has answered with. */
  type Cut = (relay: ChildRelay, rotated: () => ReturnType<typeof rotate>) => Promise<readonly string[]>;

  const beforeWrite =
    (nth: number): Cut =>
    async (relay, rotated) => {
      await using _ = await inject(relay.pid, `signal=SIGKILL:when=${nth}`);
      const secrets: string[] = [];
      for (;;) {
        const got = await rotated().catch(() => undefined);
        if (got?.status !== 200) break;
        secrets.push(got.json.data.secret as string);
      }
      // Each rotation is at least one write.
      expect(secrets.length).toBeLessThan(nth);
      await relay.running.ended;
      return secrets;
    };
  const cuts: Readonly<Record<string, Cut>> = {
    "after its commit, before its answer": async (relay, rotated) => {
      await using injected = await inject(relay.pid, "delay_exit=60000000:when=1");
      const rotating = rotated().catch(() => undefined);
      await injected.delayed;
      await injected.kill();
      expect(await rotating).toBeUndefined();
      return [];
    },
    "by a disk that fails": async (relay, rotated) => {
      await using _ = await inject(relay.pid, "error=EIO:when=1");
      const got = await rotated().catch(() => undefined);
      return got?.status === 200 ? [got.json.data.secret] : [];
    },
    "before a write": beforeWrite(1),
    "before the second write of several in a row": beforeWrite(2),
    "before the third write of several in a row": beforeWrite(3),
  };

  it("leaves a secret that the receiver has, wherever that is", async ({ skip }) => {
    skip(missing !== undefined, missing);
    // One subscription lives through all of this.
    await using own = await life();
    const { id } = own.hook;
    let held = own.hook.secret;
    let relay = own.first;
    const good = async (): Promise<boolean> => {
      const got = await relay.call("POST", `${KEY}/webhooks/${id}/test`);
      expect([got.status, got.json.data.statusCode]).toEqual([200, 200]);
      const { body, headers } = own.receiver.requests.at(-1) as Received;
      return verifyHex(body, headers, held) && verifyStandard(body, headers, held);
    };
    for (const [where, cut] of Object.entries(cuts)) {
      held = (await cut(relay, () => rotate(relay, id))).at(-1) ?? held;
      await relay.kill();
      relay = await own.again();
      expect(await good(), where).toBe(true);
      const rotated = await rotate(relay, id);
      expect(rotated.status, where).toBe(200);
      held = rotated.json.data.secret;
      expect(await good(), where).toBe(true);
    }
  });
});

describe("a second process", () => {
  it("on the same folder ends with 75 and leaves the first one alone", async () => {
    const folder = testFolder();
    await using first = await startChild(folder);
    await expect(startChild(folder)).rejects.toThrow(/in use|lock|another|already/i);
    expect((await first.call("GET", `${KEY}/webhooks`)).status).toBe(200);
  });
});
