import { DELIVERY, DUE, EVENT } from "../../core/model/schema.ts";
import { describe, expect, it } from "vitest";
import { bodyData } from "../../core/model/event.ts";
import { isOrdinal } from "../../core/model/ids.ts";
import { desk, paid, publish, subscription } from "../support/intake.ts";
import { refusal } from "../support/refusal.ts";

describe("an accepted event", () => {
  it("is stored with its deliveries in one commit before it is acknowledged", async () => {
    const made = desk();
    made.subscriptions = [subscription("a"), subscription("b", { events: ["withdraw:sent"] }), subscription("c")];
    const [accepted] = await made.intake.accept(publish([paid()]));
    expect(made.shelf.commits).toHaveLength(1);
    expect(accepted).toMatchObject({ type: "deposit:paid", keyId: "key_1", deliveries: 2, duplicate: false });
    expect(accepted?.createdAt).toBe("2026-01-01T00:00:00.000Z");
    const ordinal = accepted?.id.slice(4) ?? "";
    expect(isOrdinal(ordinal)).toBe(true);
    const event = EVENT.orThrow(made.shelf.rows.get(`event:key_1:${ordinal}`) ?? "");
    expect(event.subscriptionIds).toEqual(["sub_a", "sub_c"]);
    expect(event.body).toBe(
      `{"id":"evt_${ordinal}","type":"deposit:paid","keyId":"key_1","createdAt":"2026-01-01T00:00:00.000Z","data":{"amount":1}}`,
    );
    expect(made.told).toEqual([event]);
    const lines = [...made.shelf.rows].filter(([key]) => key.startsWith("due:")).map(([k, v]) => DUE.orThrow(v, k));
    expect(lines).toEqual(made.shelf.added);
    expect(lines[0]).toEqual({
      subscriptionId: "sub_a",
      keyId: "key_1",
      ordinal,
      dueAt: made.clock.now(),
      generation: 3,
      cycle: 0,
      attempts: 0,
    });
  });

  it("is written with as few rows as the promises allow: event and due line", async () => {
    const made = desk();
    made.subscriptions = [subscription("a")];
    await made.intake.accept(publish([paid()]));
    expect(made.shelf.commits[0]?.map(({ key }) => key.split(":")[0])).toEqual([
      "event",
      "due",
      "key",
      "type",
      "keytype",
    ]);
    await made.intake.accept(publish([paid()]));
    expect(made.shelf.commits[1]?.map(({ key }) => key.split(":")[0])).toEqual(["event", "due"]);
  });

  it("tells nobody before the commit has ended", async () => {
    const made = desk();
    made.subscriptions = [subscription("a")];
    const gate = Promise.withResolvers<void>();
    const reached = Promise.withResolvers<void>();
    made.shelf.before = () => {
      reached.resolve();
      return gate.promise;
    };
    let answered = false;
    const work = made.intake.accept(publish([paid()])).then(() => (answered = true));
    await reached.promise;
    expect([answered, made.told.length, made.shelf.added.length]).toEqual([false, 0, 0]);
    gate.resolve();
    await work;
    expect([answered, made.told.length, made.shelf.added.length]).toEqual([true, 1, 1]);
  });

  it("is kept as failed for a disabled subscription that wants it", async () => {
    const made = desk();
    made.subscriptions = [subscription("off", { status: "disabled" })];
    const [accepted] = await made.intake.accept(publish([paid()]));
    const ordinal = accepted?.id.slice(4) ?? "";
    expect(accepted?.deliveries).toBe(1);
    expect(made.shelf.added).toEqual([]);
    expect(DELIVERY.orThrow(made.shelf.rows.get(`delivery:sub_off:${ordinal}`) ?? "")).toEqual({
      keyId: "key_1",
      eventId: accepted?.id,
      ordinal,
      subscriptionId: "sub_off",
      status: "failed",
      reason: "subscription_disabled",
      cycle: 0,
      generation: 3,
      attempts: [],
      updatedAt: made.clock.now(),
    });
    expect(made.shelf.rows.get(`failed:sub_off:${ordinal}`)).toBe(`key_1 ${made.clock.now()} subscription_disabled 0`);
  });

  it("goes to no deleted subscription, and is stored all the same when nobody wants it", async () => {
    const made = desk();
    made.subscriptions = [subscription("gone", { deletedAt: 1 })];
    const [accepted] = await made.intake.accept(publish([paid()]));
    expect(accepted?.deliveries).toBe(0);
    expect([...made.shelf.rows.keys()].filter((key) => key.startsWith("event:"))).toHaveLength(1);
  });

  it("keeps the published data byte for byte", async () => {
    const made = desk();
    const data =
      '{ "n":1.0,"big":12345678901234567890.10e+2,\n"a":"\\u00e9\\/é\\ud800","a":1 , "z":{"b":[ ],"a":{ }} }';
    await made.intake.accept(publish([`{"data" : ${data} ,"keyId":"key_1",\t"type":"deposit:paid"}`]));
    const [event] = made.told;
    expect(event && bodyData(event)).toBe(data);
  });

  it("takes the time that the publisher gives, in UTC with milliseconds", async () => {
    const made = desk();
    const [accepted] = await made.intake.accept(publish([paid({ createdAt: "2026-02-03T04:05:06.7899+02:00" })]));
    expect(accepted?.createdAt).toBe("2026-02-03T02:05:06.789Z");
    expect(made.told[0]?.acceptedAt).toBe(made.clock.now());
  });

  it("keeps the trace context", async () => {
    const made = desk();
    await made.intake.accept(publish([paid()], { traceparent: "00-a-b-01" }));
    expect(made.told[0]?.traceparent).toBe("00-a-b-01");
  });

  it("leaves one wide line in the log, without its data", async () => {
    const made = desk();
    const [accepted] = await made.intake.accept(publish([paid({ data: "canary" })], { requestId: "req_1" }));
    expect(made.log.lines).toHaveLength(1);
    expect(made.log.lines[0]?.fields).toMatchObject({ requestId: "req_1", eventId: accepted?.id, keyId: "key_1" });
    expect(JSON.stringify(made.log.lines)).not.toContain("canary");
  });

  it("names its key and type once, and never moves the time of their first use", async () => {
    const made = desk();
    await made.intake.accept(publish([paid(), paid({ type: "withdraw:sent" })]));
    const first = String(made.clock.now());
    await made.clock.advance(1_000);
    await made.another().accept(publish([paid({ keyId: "key_2" })]));
    expect(made.shelf.rows.get("key:key_1")).toBe(first);
    expect(made.shelf.rows.get("type:deposit~paid")).toBe(first);
    expect(made.shelf.rows.get("key:key_2")).toBe(String(made.clock.now()));
    expect(made.shelf.rows.get("keytype:key_1:deposit~paid")).toBe(first);
    expect(made.shelf.rows.get("keytype:key_2:deposit~paid")).toBe(String(made.clock.now()));
    expect(made.shelf.rows.has("keytype:key_2:withdraw~sent")).toBe(false);
  });

  it("that makes names up adds rows for a thousand of them on a key, and no more", async () => {
    const made = desk();
    const events = (from: number) => Array.from({ length: 600 }, (_, i) => paid({ type: `made-up:${from + i}` }));
    for (const from of [0, 600, 1_200]) await made.intake.accept(publish(events(from)));
    const named = [...made.shelf.rows.keys()].filter((key) => key.startsWith("keytype:key_1:"));
    expect(named.length).toBeGreaterThanOrEqual(1_000);
    expect(named.length).toBeLessThanOrEqual(1_200);
    await made.intake.accept(publish([paid({ keyId: "key_2", type: "made-up:0" })]));
    expect(made.shelf.rows.has("keytype:key_2:made-up~0")).toBe(true);
  });
});

describe("a batch", () => {
  it("is answered in its order and stored in one commit", async () => {
    const made = desk();
    const accepted = await made.intake.accept(publish([paid({ id: "b" }), paid(), paid({ id: "a" })]));
    expect(accepted.map(({ id }) => id)).toEqual(["b", expect.stringMatching(/^evt_/), "a"]);
    expect(made.shelf.commits).toHaveLength(1);
    expect(made.told.map(({ ordinal }) => ordinal)).toEqual(made.told.map(({ ordinal }) => ordinal).toSorted());
  });

  it("is refused as a whole with every problem at once", async () => {
    const made = desk({ events: ["deposit:paid"] });
    const work = made.intake.accept(
      publish([
        paid(),
        { keyId: "key_1", type: "withdraw:sent", extra: 1 },
        paid({ type: "relay:ping", keyId: "-x", id: "", createdAt: "yesterday" }),
        '{"type":"deposit:paid","keyId":"key_1","data":1,"d\\u0061ta":2}',
        [1],
        paid({ type: 7, id: null, createdAt: null }),
      ]),
    );
    const { code, errors } = await refusal(work);
    expect(code).toBe("VALIDATION_FAILED");
    expect(errors.map(({ path }) => path)).toEqual([
      "[1].extra",
      "[1].type",
      "[1].data",
      "[2].type",
      "[2].keyId",
      "[2].id",
      "[2].createdAt",
      "[3].data",
      "[4]",
      "[5].type",
      "[5].id",
      "[5].createdAt",
    ]);
    expect(made.shelf.commits).toEqual([]);
  });

  it("with text that is no JSON names it beside the wrong fields", async () => {
    const made = desk();
    const { code, errors } = await refusal(made.intake.accept(publish([paid({ type: "" }), "{", paid()])));
    expect([code, errors.map(({ path }) => path)]).toEqual(["INVALID_JSON", ["[1]", "[0].type"]]);
  });

  it("of nothing is refused", async () => {
    expect((await refusal(desk().intake.accept(publish([])))).code).toBe("VALIDATION_FAILED");
  });

  it("lists a few of the unknown fields of an event and counts the others", async () => {
    const many = Object.fromEntries(Array.from({ length: 1_000 }, (_, i) => [`x${i}`.padEnd(200, "y"), i]));
    const { errors } = await refusal(desk().intake.accept(publish([paid(many)])));
    expect(errors).toHaveLength(6);
    expect(errors[0]?.path).toHaveLength(64);
    expect(errors[5]?.message).toBe("has 995 more unknown fields");
  });
});

describe("an event", () => {
  const nested = (levels: number): string => "[".repeat(levels) + "]".repeat(levels);
  const text = (data: string): string => `{"type":"deposit:paid","keyId":"key_1","data":${data}}`;

  it("may nest 64 levels deep and no deeper", async () => {
    await desk().intake.accept(publish([text(nested(63))]));
    expect((await refusal(desk().intake.accept(publish([text(nested(64))])))).code).toBe("INVALID_JSON");
    expect((await refusal(desk().intake.accept(publish([nested(100_000)])))).code).toBe("INVALID_JSON");
  });

  it("may have 256 KiB in UTF-8 and not a byte more", async () => {
    const room = 256 * 1024 - text('""').length;
    await desk().intake.accept(publish([text(`"${"x".repeat(room)}"`)]));
    await desk().intake.accept(publish([text(`"${"é".repeat(room / 2 - 1)}"`)]));
    for (const data of ["x".repeat(room + 1), "é".repeat(Math.ceil(room / 2) + 1), "€".repeat(room / 2)]) {
      expect((await refusal(desk().intake.accept(publish([text(`"${data}"`)])))).code).toBe("PAYLOAD_TOO_LARGE");
    }
  });

  it("may have data of any kind, null too, but not none", async () => {
    for (const data of ["null", "false", "0", '""', "[]", "{}"]) {
      const made = desk();
      await made.intake.accept(publish([text(data)]));
      expect(made.told[0]?.body).toContain(`"data":${data}}`);
    }
    const { errors } = await refusal(desk().intake.accept(publish([{ type: "deposit:paid", keyId: "key_1" }])));
    expect(errors).toEqual([{ path: "data", message: "is missing" }]);
  });

  it("is not fooled by names that objects have from birth", async () => {
    const { errors } = await refusal(
      desk().intake.accept(publish(['{"__proto__":{"type":"deposit:paid"},"constructor":1,"keyId":"k","data":1}'])),
    );
    expect(errors.map(({ path }) => path)).toEqual(["__proto__", "constructor", "type"]);
  });
});

describe("a publisher", () => {
  it("whose token is bound to keys does not find the others, whatever they are", async () => {
    const made = desk();
    const bound = (keyId: string) => made.intake.accept(publish([paid({ keyId })], { keys: ["key_1", "key_2"] }));
    expect(await bound("key_2")).toHaveLength(1);
    expect((await refusal(bound("key_3"))).code).toBe("NOT_FOUND");
    const batch = made.intake.accept(publish([paid(), paid({ keyId: "key_9" })], { keys: ["key_1"] }));
    expect((await refusal(batch)).code).toBe("NOT_FOUND");
    expect(made.shelf.commits).toHaveLength(1);
  });

  it("hears of wrong fields before it hears of foreign keys", async () => {
    const work = desk().intake.accept(publish([paid({ keyId: "key_9", id: "?" })], { keys: ["key_1"] }));
    expect((await refusal(work)).code).toBe("VALIDATION_FAILED");
  });
});
