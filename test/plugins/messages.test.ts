// All message sources share this: how a message is read, grouped, stored, refused, and waited for.
import { describe, expect, it } from "vitest";
import { optionProblems } from "../../core/ports/options.ts";
import { Problem } from "../../core/model/problem.ts";
import type { Accept, AcceptRequest } from "../../core/ports/source.ts";
import { MESSAGE } from "../../plugins/source/messages/plugin.ts";
import { describeSource, type Upstream } from "../conformance/source.ts";
import { desk, paid } from "../support/intake.ts";
import { messageBench, type MessageBench } from "../support/message-source.ts";

const event = (over: Readonly<Record<string, unknown>> = {}): string => JSON.stringify(paid(over));

describe("a message source keeps the law of a source:", () => {
  const benches = new WeakMap<object, MessageBench>();
  const learned = { stored: "acknowledged", poison: "refused", returned: "later" } as const;
  describeSource(it, {
    open() {
      const made = messageBench();
      const under = {
        source: made.source,
        async publish(text: string): Promise<Upstream> {
          const waiting = made.clock.whenSleeping().then((): Upstream => "later");
          return await Promise.race([made.send(text).then(([fate]) => learned[fate?.kind ?? "returned"]), waiting]);
        },
        [Symbol.asyncDispose]: () => made.source.stop(),
      };
      benches.set(under, made);
      return Promise.resolve(under);
    },
    async again(under) {
      const made = benches.get(under) as MessageBench;
      await made.clock.advance(1_000);
      return learned[made.settled[0]?.fate.kind ?? "returned"];
    },
  });
});

/** A bench whose events are stored by the relay's own publisher. */
function started(...given: Parameters<typeof messageBench>) {
  const made = messageBench(...given);
  const intake = desk();
  const requests: AcceptRequest[] = [];
  const accept: Accept = (request) => {
    requests.push(request);
    return intake.intake.accept(request);
  };
  void made.source.start(accept, { durability: "fsync" });
  return { ...made, requests, told: intake.told };
}

describe("messages", () => {
  it("that arrive together are stored in one commit, each under an id of the place where it stood", async () => {
    const { send, requests, told } = started();
    const fates = await send(event(), event({ id: "mine" }), `[${event()},${event({ data: 2 })}]`);
    expect(fates).toEqual([{ kind: "stored" }, { kind: "stored" }, { kind: "stored" }]);
    expect(requests).toHaveLength(1);
    expect(told.map(({ id }) => id)).toEqual(["m-1", "mine", "m-3:0", "m-3:1"]);
  });

  it("that are delivered again make no second event, and are counted", async () => {
    const { send, told, metrics } = started();
    const message = { payload: event(), place: "orders-1699-0" };
    await send(message);
    expect(await send({ ...message, redelivered: true })).toEqual([{ kind: "stored" }]);
    expect(told.map(({ id }) => id)).toEqual(["orders-1699-0"]);
    expect(metrics.counted.get("source_redelivered test")).toBe(1);
  });

  it("that nothing tells apart and that are new are one event, of which the log warns once", async () => {
    const { send, told, log } = started();
    const message = { payload: event(), place: "q:1", madePlace: true, redelivered: false };
    await send(message);
    await send({ ...message, redelivered: true });
    const warnings = () => log.lines.filter(({ message: text }) => text.includes("taken for one that was stored"));
    expect(warnings()).toEqual([]);
    for (let i = 0; i < 2; i++) await send(message);
    expect([told.length, warnings().length]).toEqual([1, 1]);
    const own = { ...message, payload: event({ id: "mine" }), place: "q:2" };
    const another = started();
    for (let i = 0; i < 2; i++) await another.send(own);
    expect(another.log.lines.filter(({ level }) => level === "warn")).toEqual([]);
  });

  it("whose place is no valid id get its hash, the same each time", async () => {
    const { send, told } = started();
    await send({ payload: event(), place: "ü b" });
    await send({ payload: event(), place: "ü b" });
    expect(told.map(({ id }) => id)).toEqual([expect.stringMatching(/^h-[0-9a-f]{40}$/)]);
  });

  it("of a source with a name of its own get ids that begin with it", async () => {
    const { send, told } = started({ name: "shop" });
    await send(event());
    expect(told.map(({ id }) => id)).toEqual(["shop-m-1"]);
  });

  it("pass on their data byte for byte", async () => {
    const { send, told } = started({ keyId: "key_9" });
    await send('{"type":"deposit:paid", "data":{"n":1.0,"big":12345678901234567890}}');
    expect(told[0]?.body).toContain('"keyId":"key_9"');
    expect(told[0]?.body).toContain('"data":{"n":1.0,"big":12345678901234567890}}');
  });

  it("are read without a byte order mark, by map too", async () => {
    const { send, told } = started();
    const fates = await send(`\u{feff}${event({ data: "a" })}`, Buffer.from(`\u{feff}[${event({ data: "b" })}]`));
    expect([fates, told.map(({ body }) => body.slice(-4))]).toEqual([
      [{ kind: "stored" }, { kind: "stored" }],
      ['"a"}', '"b"}'],
    ]);
    const mapped = started({ map: (message) => ({ ...paid(), dataText: message.text, data: undefined }) });
    expect(await mapped.send('\u{feff}{"n":1}')).toEqual([{ kind: "stored" }]);
  });

  it("that can never be stored are set aside with the reason, and those around them are stored", async () => {
    const { send, told, metrics } = started();
    const long = event({ data: "x".repeat(300_000) });
    const fates = await send(
      event(),
      "no JSON",
      new Uint8Array([0xff]),
      event({ id: "same", data: 1 }),
      event({ id: "same", data: 2 }),
      long,
      event({ type: 7 }),
      "[]",
      `[${event()},{}]`,
      event(),
    );
    expect(fates.map((fate) => (fate.kind === "poison" ? fate.code : fate.kind))).toEqual([
      "stored",
      "INVALID_JSON",
      "INVALID_JSON",
      "stored",
      "IDEMPOTENCY_MISMATCH",
      "PAYLOAD_TOO_LARGE",
      "VALIDATION_FAILED",
      "VALIDATION_FAILED",
      "VALIDATION_FAILED",
      "stored",
    ]);
    expect(fates[8]).toMatchObject({ detail: expect.stringContaining("[1].type is missing") });
    expect(told.map(({ id }) => id).toSorted()).toEqual(["m-1", "m-10", "same"]);
    expect(metrics.counted.get("source_dead_lettered test")).toBe(7);
  });

  it.each([
    ["keeps them", () => true],
    [
      "cannot be told",
      () => {
        throw new Error("no connection");
      },
    ],
  ])("that are bad are counted and named once while upstream %s, and anew when it did not", async (_, keeps) => {
    let kept: () => boolean = keeps;
    const { send, metrics, log } = started({}, { keeps: () => kept() });
    const bad = { payload: "no JSON", place: "orders-17" };
    const seen = () => [
      metrics.counted.get("source_dead_lettered test"),
      log.lines.filter(({ message }) => message === "a message is set aside").length,
    ];
    for (let times = 0; times < 3; times++) await send(bad);
    expect(seen()).toEqual([1, 1]);
    kept = () => false;
    await send(bad);
    expect(seen()).toEqual([1, 1]);
    // Another one that stands in the same place.
    await send(bad);
    expect(seen()).toEqual([2, 2]);
  });

  it("are divided where a refusal names none of them", async () => {
    const made = messageBench();
    const accept: Accept = ({ publications }) => {
      if (publications.some(({ text }) => text.includes("bad"))) throw new Problem("NOT_FOUND", "no such key");
      return Promise.resolve([]);
    };
    await made.source.start(accept, { durability: "fsync" });
    const fates = await made.send(...Array.from({ length: 9 }, (_, i) => (i % 4 === 3 ? "bad" : "good")));
    expect(fates.map(({ kind }, i) => (kind === "poison" ? i : -1)).filter((i) => i >= 0)).toEqual([3, 7]);
  });

  it("wait with growing pauses while nothing can be stored, and the source says so", async () => {
    const made = messageBench();
    const at: number[] = [];
    let refusing = true;
    const accept: Accept = () => {
      at.push(made.clock.now());
      if (refusing) throw new Problem("STORAGE_FULL", "full");
      return Promise.resolve([]);
    };
    await made.source.start(accept, { durability: "fsync" });
    const fates = made.send(event());
    await made.clock.whenSleeping();
    expect(made.intake.readiness()).toBe("nothing can be stored now: STORAGE_FULL");
    await made.clock.advance(200_000);
    expect(at.slice(1).map((time, i) => time - (at[i] ?? 0))).toEqual([
      100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000, 30_000, 30_000,
    ]);
    refusing = false;
    await made.clock.advance(30_000);
    expect(await fates).toEqual([{ kind: "stored" }]);
    expect(made.intake.readiness()).toBeUndefined();
  });

  it("that storage refuses after a while for good are set aside, and the source waits no more", async () => {
    const made = messageBench();
    const answers = [new Problem("STORAGE_FULL", "full"), new Problem("NOT_FOUND", "no such key")];
    const accept: Accept = () => Promise.reject(answers.shift() ?? new Error("asked too often"));
    await made.source.start(accept, { durability: "fsync" });
    const fates = made.send(event());
    await made.clock.whenSleeping();
    expect(made.intake.readiness()).toBe("nothing can be stored now: STORAGE_FULL");
    await made.clock.advance(100);
    expect(await fates).toEqual([expect.objectContaining({ kind: "poison", code: "NOT_FOUND" })]);
    expect(made.intake.readiness()).toBeUndefined();
  });

  it("are given back when the source stops before they are stored", async () => {
    const made = messageBench();
    const accept: Accept = () => {
      throw new Problem("SHUTTING_DOWN", "later");
    };
    await made.source.start(accept, { durability: "fsync" });
    const fates = made.send(event(), event());
    await made.clock.whenSleeping();
    await made.source.stop();
    expect(await fates).toEqual([{ kind: "returned" }, { kind: "returned" }]);
    expect(await made.intake.room()).toBe(0);
  });

  it("are not taken in beyond the window until some are settled", async () => {
    const { intake, send } = started({}, { maxInFlight: 2 });
    expect(await intake.room()).toBe(2);
    const sent = send(event(), event());
    let free = 0;
    const waits = intake.room().then((room) => (free = room));
    expect(free).toBe(0);
    await sent;
    await waits;
    expect(free).toBe(2);
  });

  it("of many megabytes are stored in several commits", async () => {
    const { send, requests, told } = started();
    await send(...Array.from({ length: 20 }, () => event({ data: "x".repeat(200_000) })));
    expect(told).toHaveLength(20);
    expect(requests.length).toBeGreaterThan(1);
  });
});

describe("messages that are not ours", () => {
  it("become events through map: one, several, or none", async () => {
    const { send, told } = started({
      keyId: ({ headers }) => headers["tenant"] ?? "nobody",
      map: ({ text, json, subject }) => {
        if (text === "drop") return undefined;
        const one = { type: `${subject}.paid`, dataText: text, createdAt: new Date(0) };
        return (json() as { twice?: boolean }).twice === true ? [one, { ...one, id: "mine" }] : one;
      },
    });
    const headers = { tenant: "key_7" };
    const sent = await send("drop", { payload: '{"big":12345678901234567890}', headers }, '{"twice":true}');
    expect(sent).toEqual([{ kind: "stored" }, { kind: "stored" }, { kind: "stored" }]);
    expect(told.map(({ id, keyId, type }) => [id, keyId, type])).toEqual([
      ["m-2", "key_7", "test.paid"],
      ["m-3:0", "nobody", "test.paid"],
      ["mine", "nobody", "test.paid"],
    ]);
    expect(told[0]?.body).toContain('"createdAt":"1970-01-01T00:00:00.000Z","data":{"big":12345678901234567890}}');
  });

  it("are set aside with that reason when map returns a promise, and what it rejects with ends nothing", async () => {
    const { send, told } = started({ map: (() => Promise.reject(new Error("asked in vain"))) as never });
    expect(await send("{}")).toEqual([
      expect.objectContaining({ kind: "poison", detail: expect.stringContaining("map has returned a promise") }),
    ]);
    expect(told).toEqual([]);
  });

  it("have no functions that are async, which the config refuses", () => {
    const later = async () => "key_1";
    const message = "must not be async: it returns its result at once";
    const paths = ["map", "keyId", "type"];
    const wrong = { map: later, keyId: later, type: later };
    expect(optionProblems(wrong, MESSAGE)).toEqual(paths.map((path) => ({ path, message })));
  });

  it("are set aside when map throws, or makes no valid event", async () => {
    const { send, told } = started({
      map: ({ json }) => json() as { data: unknown; dataText?: string },
    });
    const fates = await send("{", '{"data":1}', "7", '{"dataText":"1,2"}');
    expect(fates.map(({ kind }) => kind)).toEqual(["poison", "poison", "poison", "poison"]);
    expect(fates[0]).toMatchObject({ detail: expect.stringContaining("map of the source has thrown: SyntaxError") });
    expect(told).toEqual([]);
  });
});

describe("the lag of a message source", () => {
  const lagOf = (made: MessageBench): number | undefined => {
    // As a reading of the metrics does.
    made.intake.readiness();
    return made.metrics.shown.get("source_lag_seconds test");
  };

  it("is there from the start, and grows for as long as upstream is away", async () => {
    const made = started();
    expect(made.metrics.shown.get("source_lag_seconds test")).toBe(0);
    made.intake.away("no answer");
    await made.clock.advance(200_000);
    made.intake.away("still none");
    await made.clock.advance(200_000);
    expect(lagOf(made)).toBe(400);
    made.intake.away(undefined);
    expect(lagOf(made)).toBe(0);
  });

  it("grows while nothing can be stored and nothing more comes, whether or not upstream has times", async () => {
    const made = messageBench();
    let refusing = true;
    const { intake } = desk();
    const accept: Accept = (request) =>
      refusing ? Promise.reject(new Problem("STORAGE_FULL", "full", { retryAfter: 10_000 })) : intake.accept(request);
    void made.source.start(accept, { durability: "fsync" });
    const sent = made.send(event());
    await made.clock.whenSleeping();
    await made.clock.advance(20_000);
    expect(lagOf(made)).toBe(20);
    refusing = false;
    await made.clock.advance(10_000_000);
    await sent;
    expect(lagOf(made)).toBe(0);
  });

  it("is as old as the first message upstream, as long as that stays the same", async () => {
    const made = started();
    made.intake.backlog({ count: 2, first: "a" });
    await made.clock.advance(15_000);
    made.intake.backlog({ count: 1, first: "a" });
    await made.clock.advance(15_000);
    expect(lagOf(made)).toBe(30);
    made.intake.backlog({ count: 9, first: "b" });
    await made.clock.advance(5_000);
    expect([lagOf(made), made.metrics.shown.get("relay_source_backlog test")]).toEqual([5, 9]);
    made.intake.backlog({ count: 0 });
    expect(lagOf(made)).toBe(0);
  });
});
