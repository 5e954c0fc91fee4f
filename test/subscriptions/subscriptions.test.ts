import { describe, expect, it } from "vitest";
import { createSubscriptionCache, createSubscriptions } from "../../core/subscriptions/subscriptions.ts";
import type { Subscriptions, SubscriptionsDeps } from "../../core/subscriptions/subscriptions.ts";
import { Problem } from "../../core/model/problem.ts";
import { StorageError } from "../../core/model/errors.ts";
import { SUBSCRIPTION } from "../../core/model/schema.ts";
import type { Subscription } from "../../core/model/subscription.ts";
import { maskedUrl, sealedFor } from "../../core/model/credentials.ts";
import { Signer } from "../../core/signing/signer.ts";
import { secretAad } from "../../core/model/subscription.ts";
import type { Change, Storage } from "../../core/ports/storage.ts";
import { makeKeys } from "../../core/runtime/keys/keyring.ts";
import { testClock } from "../support/clock.ts";
import { subscription } from "../support/intake.ts";
import { refusal } from "../support/refusal.ts";
import { shelf } from "../support/shelf.ts";
import type { Shelf } from "../support/shelf.ts";

const ACTOR = { sub: "tester", address: "127.0.0.1" };
const FIELDS = { url: "https://hooks.example.com/", events: ["deposit:paid"] };
const key = Buffer.alloc(32, 7).toString("base64");
const keys = makeKeys({ master: key, signing: key, publishToken: "t" });

/** A shelf whose watchers a test tells by hand. */
function watched(...names: readonly string[]): {
  readonly store: Shelf;
  readonly storage: Storage;
  tell(keys: readonly string[]): void;
} {
  const store = shelf();
  for (const name of names) put(store, subscription(name));
  const watchers: ((keys: readonly string[]) => void)[] = [];
  const queue = { ...store.queue, cancel: () => Promise.resolve(), pause: () => Promise.resolve() };
  const watch = (changed: (keys: readonly string[]) => void) => {
    watchers.push(changed);
    return () => void watchers.splice(watchers.indexOf(changed), 1);
  };
  const storage = Object.assign(store, { queue, watch }) as unknown as Storage;
  return { store, storage, tell: (touched) => watchers.forEach((changed) => changed(touched)) };
}

const keyOf = (id: string): string => SUBSCRIPTION.key({ keyId: "key_1", id });
const put = (store: Shelf, sub: Subscription): void =>
  void store.rows.set(SUBSCRIPTION.key(sub), SUBSCRIPTION.write(sub));

describe("the subscription cache", () => {
  it("reads a key once, until a commit touches it", async () => {
    const { store, storage, tell } = watched("a");
    let reads = 0;
    const { range } = store;
    store.range = (...args) => (reads++, range(...args));
    using directory = createSubscriptionCache(storage);
    expect(await directory.of("key_1")).toHaveLength(1);
    expect(directory.of("key_1")).toBe(directory.of("key_1"));
    expect(reads).toBe(1);
    put(store, subscription("b"));
    tell([SUBSCRIPTION.key({ keyId: "key_2", id: "sub_x" }), "control:x"]);
    expect(await directory.of("key_1")).toHaveLength(1);
    tell([keyOf("sub_b")]);
    expect(await directory.of("key_1")).toHaveLength(2);
  });

  it("forgets all it has read when it learns that messages were missed", async () => {
    const { store, storage, tell } = watched("a");
    using directory = createSubscriptionCache(storage);
    expect(await directory.get("key_1", "sub_a")).toMatchObject({ status: "active" });
    put(store, { ...subscription("a"), status: "disabled" });
    tell(["subscription:", "control:"]);
    expect(await directory.get("key_1", "sub_a")).toMatchObject({ status: "disabled" });
    put(store, { ...subscription("a"), deletedAt: 5 });
    tell(["subscription:"]);
    expect(await directory.get("key_1", "sub_a")).toMatchObject({ deletedAt: 5 });
  });

  it("never keeps a reading that a change overtook", async () => {
    const { store, storage, tell } = watched("a");
    const { range } = store;
    const held = Promise.withResolvers<void>();
    store.range = async (...args) => {
      const rows = await range(...args);
      await held.promise;
      return rows;
    };
    using directory = createSubscriptionCache(storage);
    const early = directory.of("key_1");
    put(store, subscription("a", { status: "disabled" }));
    tell([keyOf("sub_a")]);
    held.resolve();
    expect((await early)[0]?.status).toBe("active");
    expect((await directory.of("key_1"))[0]?.status).toBe("disabled");
  });

  it("reads again only what has changed, and keeps one object for each version of a record", async () => {
    const { store, storage, tell } = watched("a", "b", "d");
    using directory = createSubscriptionCache(storage);
    const before = await directory.of("key_1");
    store.range = () => Promise.reject(new Error("all are read again"));
    put(store, subscription("b", { status: "disabled" }));
    put(store, subscription("c"));
    store.rows.delete(keyOf("sub_d"));
    // A row may be named although it has not changed.
    tell(["a", "b", "c", "d"].map((name) => keyOf(`sub_${name}`)));
    const after = await directory.of("key_1");
    expect(after.map(({ id, status }) => `${id} ${status}`)).toEqual([
      "sub_a active",
      "sub_b disabled",
      "sub_c active",
    ]);
    expect(after[0]).toBe(before[0]);
    expect(directory.get("key_1", "sub_b")).toBe(after[1]);
    expect(directory.of("key_1")).toBe(after);
  });

  it("answers for those that have not changed while the others are read", async () => {
    const { store, storage, tell } = watched("a", "b");
    using directory = createSubscriptionCache(storage);
    const [first] = await directory.of("key_1");
    put(store, subscription("b", { status: "disabled" }));
    tell([keyOf("sub_b")]);
    const second = directory.get("key_1", "sub_b");
    expect(directory.get("key_1", "sub_a")).toBe(first);
    expect(await second).toMatchObject({ status: "disabled" });
  });

  it("counts those that are created later among the most that it holds", async () => {
    const { store, storage, tell } = watched("a");
    using directory = createSubscriptionCache(storage, undefined, 10);
    for (const keyId of ["key_1", "key_2"]) await directory.of(keyId);
    const reads: string[] = [];
    const { range } = store;
    store.range = (prefix, ...more) => (reads.push(prefix), range(prefix, ...more));
    for (let n = 0; n < 12; n++) {
      put(store, { ...subscription(`n${n}`), keyId: "key_2" });
      tell([SUBSCRIPTION.key({ keyId: "key_2", id: `sub_n${n}` })]);
      expect(await directory.of("key_2")).toHaveLength(n + 1);
    }
    expect(reads).toEqual([]);
    await directory.of("key_1");
    expect(reads).toEqual([SUBSCRIPTION.under({ keyId: "key_1" })]);
  });

  it("may be asked by who does not wait for the answer, also while the storage is away", async () => {
    const { store, storage, tell } = watched("a");
    using directory = createSubscriptionCache(storage);
    await directory.of("key_1");
    store.getMany = () => Promise.reject(new StorageError("unavailable", "away"));
    tell([keyOf("sub_a")]);
    // A rejection that nobody hears would end the process.
    void directory.of("key_1");
    await expect(directory.of("key_1")).rejects.toThrow("away");
    void directory.of("key_1");
    await new Promise((resolve) => setImmediate(resolve));
  });

  it("reads a row once more that changes while it is read", async () => {
    const { store, storage, tell } = watched("a");
    using directory = createSubscriptionCache(storage);
    await directory.of("key_1");
    const { getMany } = store;
    let during: (() => void) | undefined = () => {
      put(store, subscription("a", { status: "disabled" }));
      tell([keyOf("sub_a")]);
    };
    store.getMany = async (keys) => {
      const rows = await getMany(keys);
      during?.();
      during = undefined;
      return rows;
    };
    put(store, subscription("a", { events: ["*"] }));
    tell([keyOf("sub_a")]);
    expect(await directory.of("key_1")).toMatchObject([{ status: "disabled" }]);
  });

  it("reads all again once very many have changed, or reads by itself a changed one that is damaged", async () => {
    const { store, storage, tell } = watched("a");
    using directory = createSubscriptionCache(storage);
    await directory.of("key_1");
    let reads = 0;
    const { range } = store;
    store.range = (...args) => (reads++, range(...args));
    tell(Array.from({ length: 501 }, (_, i) => keyOf(`sub_${i}`)));
    expect(await directory.of("key_1")).toHaveLength(1);
    expect(reads).toBe(1);
    store.rows.set(keyOf("sub_b"), "{");
    tell([keyOf("sub_b")]);
    expect(await directory.of("key_1")).toMatchObject([{ status: "active" }, { disabledReason: "record_damaged" }]);
    put(store, subscription("b"));
    tell([keyOf("sub_b")]);
    expect(await directory.of("key_1")).toMatchObject([{ status: "active" }, { status: "active" }]);
    expect(reads).toBe(1);
  });

  it("knows the deleted ones too, and lists them not", async () => {
    const { store, storage, tell } = watched();
    using directory = createSubscriptionCache(storage);
    expect(await directory.get("key_1", "sub_a")).toBeUndefined();
    put(store, subscription("a"));
    tell([keyOf("sub_a")]);
    expect(await directory.get("key_1", "sub_a")).toMatchObject({ status: "active" });
    put(store, subscription("a", { deletedAt: 5 }));
    tell([keyOf("sub_a")]);
    expect(await directory.of("key_1")).toEqual([]);
    expect(await directory.get("key_1", "sub_a")).toMatchObject({ deletedAt: 5 });
  });

  it("reads again after a reading that failed", async () => {
    const { store, storage } = watched("a");
    const { range } = store;
    store.range = () => Promise.reject(new StorageError("unavailable", "gone"));
    using directory = createSubscriptionCache(storage);
    await expect(directory.of("key_1")).rejects.toThrow("gone");
    await expect(directory.get("key_1", "sub_a")).rejects.toThrow("gone");
    store.range = range;
    expect(await directory.of("key_1")).toHaveLength(1);
  });

  it("holds so many subscriptions at most, of the keys that were asked for last", async () => {
    const { store, storage, tell } = watched();
    for (const keyId of ["key_1", "key_2", "key_3"])
      for (const name of ["a", "b"]) put(store, subscription(`${keyId}${name}`, { keyId }));
    const read: string[] = [];
    const { range } = store;
    store.range = async (prefix, options) => (read.push(prefix.split(":")[1] as string), range(prefix, options));
    using directory = createSubscriptionCache(storage, undefined, 4);
    await directory.of("key_1");
    await directory.of("key_2");
    await directory.of("key_1");
    await directory.of("key_3");
    await directory.of("key_1");
    expect(read).toEqual(["key_1", "key_2", "key_3"]);
    expect(await directory.of("key_2")).toHaveLength(2);
    expect(read).toHaveLength(4);
    // Those that are dropped are not counted any more.
    tell(["subscription:"]);
    await directory.of("key_1");
    await directory.of("key_2");
    await directory.of("key_1");
    await directory.of("key_2");
    expect(read).toHaveLength(6);
  });

  it("says so when a record cannot be read, rather than leave it out", async () => {
    const { store, storage } = watched();
    store.rows.set(keyOf("sub_a"), "{");
    const told: string[] = [];
    using directory = createSubscriptionCache(storage, ({ key }) => told.push(key));
    expect(await directory.of("key_1")).toMatchObject([{ id: "sub_a", disabledReason: "record_damaged" }]);
    expect(told).toEqual([keyOf("sub_a")]);
  });
});

function desk(over: Partial<SubscriptionsDeps> = {}): {
  readonly store: Shelf;
  readonly storage: Storage;
  readonly subscriptions: Subscriptions;
  read(id: string): Subscription;
} {
  const { store, storage } = watched();
  const subscriptions = createSubscriptions({
    storage,
    clock: testClock(),
    keys,
    registerUrl: (href) => Promise.resolve({ ok: true, href }),
    retry: { attempts: 5, firstDelayMs: 5_000, factor: 4, maxDelayMs: 60_000 },
    perKey: 3,
    abort: () => Promise.resolve(),
    ...over,
  });
  return {
    store,
    storage,
    subscriptions,
    read: (id) => SUBSCRIPTION.orThrow(store.rows.get(keyOf(id)) ?? "", keyOf(id)),
  };
}

const created = async (subscriptions: Subscriptions): Promise<string> =>
  (await subscriptions.create("key_1", FIELDS, ACTOR)).subscription.id;

describe("a subscription", () => {
  it("of the operator's key is stored without its URL in clear, which may be the secret of a chat", async () => {
    const { subscriptions, store } = desk();
    const chat = (path: string) => ({ ...FIELDS, url: `https://hooks.chat.example/services/${path}` });
    const { id } = (await subscriptions.create("relay:operator", chat("T0/first"), ACTOR)).subscription;
    const place = SUBSCRIPTION.key({ keyId: "relay:operator", id });
    const stored = () => SUBSCRIPTION.orThrow(store.rows.get(place) ?? "", place);
    const clear = () => new Signer({ keys, clock: testClock() }).url(stored());
    expect([stored().url, clear()]).toEqual([maskedUrl(chat("T0/first").url), chat("T0/first").url]);
    await subscriptions.update("relay:operator", id, { description: "x" }, ACTOR);
    expect(clear()).toBe(chat("T0/first").url);
    await subscriptions.update("relay:operator", id, { url: chat("T0/second").url }, ACTOR);
    expect([stored().url, clear()]).toEqual([maskedUrl(chat("T0/second").url), chat("T0/second").url]);
    expect([...store.rows.values()].join(" ")).not.toMatch(/T0\/(?:first|second)/);
    expect(() => new Signer({ keys, clock: testClock() }).url({ ...stored(), url: "https://evil.example/" })).toThrow();
  });

  it("opens nothing that is sealed once another URL stands in its record; what 0.1.0 sealed still opens", async () => {
    const { subscriptions, read } = desk();
    const oauth2 = { tokenUrl: "https://login.example.com/t", clientId: "me", clientSecret: "hush" };
    const made = await subscriptions.create("key_1", { ...FIELDS, headers: { "X-Key": "v" }, oauth2 }, ACTOR);
    const sub = read(made.subscription.id);
    const event = { eventId: "evt_1", type: "a", body: Buffer.from("{}"), attempt: 1, cycle: 0 };
    const clock = testClock();
    const signed = (one: typeof sub) => new Signer({ keys, clock }).sign(one, event as never, clock.now());
    expect(signed(sub)["x-key"]).toBe("v");
    expect(signed({ ...sub, url: new URL("/other", sub.url).href })["x-key"]).toBe("v");
    const moved = { ...sub, url: "https://evil.example.org/" };
    expect(() => signed(moved)).toThrow();
    for (const only of [{ headers: sub.headers }, { oauth2: sub.oauth2 }])
      expect(() =>
        signed({ ...moved, headers: undefined, oauth2: undefined, secrets: [], ...only } as never),
      ).toThrow();
    const token = { ...sub, oauth2: { ...sub.oauth2, tokenUrl: "https://evil.example.org/t" } };
    expect(() => new Signer({ keys, clock }).credentials(token as never)).toThrow();
    const { id } = sub;
    const old = [{ version: 1, sealed: keys.seal(made.secret, secretAad("key_1", id, 1)), createdAt: 0 }];
    expect(signed({ ...sub, secrets: old })["x-key"]).toBe("v");
    await subscriptions.update("key_1", id, { url: "https://elsewhere.example.net/" }, ACTOR);
    expect(signed(read(id))["webhook-signature"]).toMatch(/^v1,/);
  });

  it("has a secret that only its own place opens", async () => {
    const { subscriptions, read } = desk();
    const made = await subscriptions.create("key_1", FIELDS, ACTOR);
    const [stored] = read(made.subscription.id).secrets;
    const aad = sealedFor(secretAad("key_1", made.subscription.id, 1), FIELDS.url);
    expect(keys.open(stored?.sealed ?? "", aad)).toBe(made.secret);
    const others = [secretAad("key_2", made.subscription.id, 1), secretAad("key_1", made.subscription.id, 2)];
    for (const other of others.map((one) => sealedFor(one, FIELDS.url)))
      expect(() => keys.open(stored?.sealed ?? "", other)).toThrow();
    expect(Buffer.from(made.secret.slice("whsec_".length), "base64")).toHaveLength(32);
  });

  it("is refused with the guard's reason, before anything is stored", async () => {
    const register = () => Promise.resolve({ ok: false as const, reason: "IP_NOT_PUBLIC", message: "not public" });
    const { subscriptions, store } = desk({ registerUrl: register });
    const { code, errors } = await refusal(subscriptions.create("key_1", FIELDS, ACTOR));
    expect([code, errors]).toEqual([
      "URL_NOT_ALLOWED",
      [{ path: "url", message: "not public", reason: "IP_NOT_PUBLIC" }],
    ]);
    expect(store.rows.size).toBe(0);
  });

  it("fills what its retry policy leaves out from the relay's own, at a create and at an update", async () => {
    const { subscriptions, read } = desk();
    const made = await subscriptions.create("key_1", { ...FIELDS, retry: { attempts: 2 } }, ACTOR);
    const { id } = made.subscription;
    expect(read(id).retry).toEqual({ attempts: 2, firstDelayMs: 5_000, factor: 4, maxDelayMs: 60_000 });
    await subscriptions.update("key_1", id, { retry: { firstDelayMs: 90_000 } }, ACTOR);
    expect(read(id).retry).toEqual({ attempts: 5, firstDelayMs: 90_000, factor: 4, maxDelayMs: 90_000 });
    await subscriptions.update("key_1", id, { description: "a note" }, ACTOR);
    expect(read(id).retry).toMatchObject({ firstDelayMs: 90_000 });
    await subscriptions.update("key_1", id, { retry: { delaysMs: [60_000, 3_600_000] } }, ACTOR);
    expect(read(id).retry).toEqual({ attempts: 3, delaysMs: [60_000, 3_600_000] });
    await subscriptions.update("key_1", id, { retry: null }, ACTOR);
    expect(read(id)).not.toHaveProperty("retry");
  });

  it("is refused with the entry of guard.allow that would open its URL, where there is one", async () => {
    const refusal = { ok: false as const, reason: "IP_NOT_PUBLIC", message: "not public", allow: "10.0.0.1:443" };
    const { subscriptions } = desk({ registerUrl: () => Promise.resolve(refusal) });
    const error = await subscriptions.create("key_1", FIELDS, ACTOR).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(Problem);
    expect((error as Problem).detail).toContain('guard: { allow: ["10.0.0.1:443"] }');
  });

  it("may only want what the catalogue can give, and the relay's own events", async () => {
    const { subscriptions } = desk({ events: () => ["deposit:paid", "withdraw:sent"] });
    const create = (events: readonly string[]) => subscriptions.create("key_1", { ...FIELDS, events }, ACTOR);
    await create(["deposit:paid", "withdraw:*", "relay:delivery.failed"]);
    const { code, paths } = await refusal(create(["deposit:paid", "deposit:lost", "refund:*"]));
    expect([code, paths]).toEqual(["VALIDATION_FAILED", ["events[1]", "events[2]"]]);
  });

  it("counts a generation up whenever it stops being active, and at no other time", async () => {
    const revived: string[] = [];
    const { subscriptions, read } = desk({ revive: async (id) => void revived.push(id) });
    const id = await created(subscriptions);
    const after: number[] = [];
    const step = async (work: Promise<unknown>) => {
      await work;
      after.push(read(id).generation);
    };
    await step(subscriptions.update("key_1", id, { description: "x" }, ACTOR));
    await step(subscriptions.update("key_1", id, { status: "disabled" }, ACTOR));
    await step(subscriptions.update("key_1", id, { status: "disabled" }, ACTOR));
    await step(subscriptions.update("key_1", id, { status: "active" }, ACTOR));
    await step(subscriptions.disable("key_1", id, "endpoint_gone"));
    await step(subscriptions.disable("key_1", id, "endpoint_failing"));
    expect(read(id).disabledReason).toBe("endpoint_gone");
    await step(subscriptions.update("key_1", id, { status: "active" }, ACTOR));
    expect(read(id)).not.toHaveProperty("disabledReason");
    await step(subscriptions.remove("key_1", id, ACTOR));
    expect(after).toEqual([1, 2, 2, 2, 3, 3, 3, 4]);
    expect(revived).toEqual([id, id]);
  });

  it("is disabled by the relay without fuss when it is gone already", async () => {
    const { subscriptions } = desk();
    await subscriptions.disable("key_1", "sub_none", "endpoint_gone");
  });

  it("is deleted even when another change comes first, and its attempts end before it answers", async () => {
    const ended: string[] = [];
    const { subscriptions, store, read } = desk({ abort: async (id) => void ended.push(id) });
    const id = await created(subscriptions);
    store.before = () => {
      store.before = () => undefined;
      put(store, { ...read(id), description: "raced" });
    };
    await subscriptions.remove("key_1", id, ACTOR);
    expect(read(id)).toMatchObject({ deletedAt: expect.any(Number), secrets: [], url: "" });
    expect(ended).toEqual([id]);
    expect(store.rows.get("count:key_1")).toBe("0");
    expect((await refusal(subscriptions.remove("key_1", id, ACTOR))).code).toBe("NOT_FOUND");
  });

  it.each(["the attempts cannot be ended", "the queue cannot be told", "the end cannot be noted"])(
    "a deletion that failed since %s is finished by its repeat, and counted and audited once",
    async (why) => {
      const ended: string[] = [];
      const cancelled: string[] = [];
      let failing = true;
      const fail = (): void => {
        if (failing) throw new StorageError("unavailable", why);
      };
      const { subscriptions, store, storage, read } = desk({
        abort: async (id) => {
          if (why.startsWith("the attempts")) fail();
          ended.push(id);
        },
      });
      storage.queue.cancel = async (id) => {
        if (why.startsWith("the queue")) fail();
        cancelled.push(id);
      };
      const id = await created(subscriptions);
      await subscriptions.create("key_1", FIELDS, ACTOR);
      store.before = (changes) => {
        if (why.startsWith("the end") && changes.length === 1) fail();
      };
      await expect(subscriptions.remove("key_1", id, ACTOR)).rejects.toThrow(why);
      await expect(subscriptions.remove("key_1", id, ACTOR)).rejects.toThrow(why);
      expect(read(id)).toMatchObject({ deletedAt: expect.any(Number) });
      expect((await refusal(subscriptions.update("key_1", id, { description: "x" }, ACTOR))).code).toBe("NOT_FOUND");
      failing = false;
      await subscriptions.remove("key_1", id, ACTOR);
      expect([ended.at(-1), cancelled.at(-1)]).toEqual([id, id]);
      expect(store.rows.get("count:key_1")).toBe("1");
      const audited = [...store.rows].filter(([row, text]) => row.startsWith("audit:") && text.includes("deleted"));
      expect(audited).toHaveLength(1);
      expect((await refusal(subscriptions.remove("key_1", id, ACTOR))).code).toBe("NOT_FOUND");
    },
  );

  it("two deletions at once both end, and both of them wait for the attempts", async () => {
    let release = (): void => {};
    const held = new Promise<void>((resolve) => (release = resolve));
    let aborts = 0;
    const { subscriptions, store } = desk({ abort: () => (aborts++, held) });
    const id = await created(subscriptions);
    const both = [subscriptions.remove("key_1", id, ACTOR), subscriptions.remove("key_1", id, ACTOR)];
    while (aborts < 2) await new Promise(setImmediate);
    release();
    await Promise.all(both);
    expect(store.rows.get("count:key_1")).toBe("0");
  });

  it("a re-enabling that failed clears breaker and pause when it is repeated", async () => {
    const revived: string[] = [];
    let failing = true;
    const { subscriptions, read } = desk({
      revive: async (id) => {
        if (failing) throw new StorageError("unavailable", "not now");
        revived.push(id);
      },
    });
    const id = await created(subscriptions);
    await subscriptions.update("key_1", id, { status: "disabled" }, ACTOR);
    await expect(subscriptions.update("key_1", id, { status: "active" }, ACTOR)).rejects.toThrow("not now");
    failing = false;
    await subscriptions.update("key_1", id, { status: "active" }, ACTOR);
    expect([revived, read(id).status]).toEqual([[id], "active"]);
  });

  it("counts right when the count row was never written", async () => {
    const { subscriptions, store } = desk();
    for (const id of ["x", "y"]) put(store, subscription(id));
    await subscriptions.create("key_1", FIELDS, ACTOR);
    expect((await refusal(subscriptions.create("key_1", FIELDS, ACTOR))).code).toBe("SUBSCRIPTION_LIMIT_REACHED");
  });

  it("rotates to one winner: the loser of the race learns so", async () => {
    const { subscriptions, store, read } = desk();
    const id = await created(subscriptions);
    const arrived: (() => void)[] = [];
    store.before = () =>
      new Promise<void>((resolve) => {
        arrived.push(resolve);
        if (arrived.length === 2) for (const go of arrived) go();
        if (arrived.length > 2) resolve();
      });
    const both = await Promise.allSettled([1, 2].map(() => subscriptions.rotate("key_1", id, 60_000, ACTOR)));
    const won = both.filter((one) => one.status === "fulfilled");
    const lost = both.filter((one) => one.status === "rejected");
    expect([won.length, lost.length]).toEqual([1, 1]);
    expect(lost[0]?.reason).toMatchObject({ code: "CONFLICT" });
    const [newest] = read(id).secrets;
    expect(keys.open(newest?.sealed ?? "", sealedFor(secretAad("key_1", id, 2), FIELDS.url))).toBe(
      won[0]?.value.secret,
    );
  });

  it("rotates although another field changes meanwhile", async () => {
    const { subscriptions, store, read } = desk();
    const id = await created(subscriptions);
    store.before = () => {
      store.before = () => undefined;
      put(store, { ...read(id), description: "raced" });
    };
    await subscriptions.rotate("key_1", id, 60_000, ACTOR);
    expect(read(id)).toMatchObject({ description: "raced", secrets: [{ version: 2 }, { version: 1 }] });
  });

  it("stores what was done and who did it in one commit", async () => {
    const { subscriptions, store } = desk();
    const id = await created(subscriptions);
    await subscriptions.update("key_1", id, { description: "x" }, ACTOR);
    await subscriptions.rotate("key_1", id, 0, ACTOR);
    await subscriptions.disable("key_1", id, "endpoint_gone");
    await subscriptions.remove("key_1", id, ACTOR);
    const touches = (changes: readonly Change[], shelfName: string) => changes.some((c) => c.key.startsWith(shelfName));
    // The last one only notes that the deletion is finished.
    expect(store.commits).toHaveLength(6);
    for (const changes of store.commits.slice(0, 5)) {
      expect(touches(changes, "subscription:") && touches(changes, "audit:key_1:")).toBe(true);
    }
    expect(touches(store.commits[5] as readonly Change[], "audit:")).toBe(false);
    const lines = [...store.rows].filter(([name]) => name.startsWith("audit:")).map(([, value]) => value);
    expect(lines.map((line) => (JSON.parse(line) as { by: string }).by)).toEqual([
      ...Array<string>(3).fill("tester"),
      "relay",
      "tester",
    ]);
  });
});
