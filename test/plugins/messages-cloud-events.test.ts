// CloudEvents 1.0 in both modes, as every message source reads them.
import { describe, expect, it } from "vitest";
import type { MessageOptions, RawMessage } from "../../plugins/source/messages/message.ts";
import { desk } from "../support/intake.ts";
import { messageBench, type Fate } from "../support/message-source.ts";

const cloud = {
  specversion: "1.0",
  id: "A234-1234",
  source: "/shop",
  type: "com.example.order.paid",
  time: "2026-03-04T05:06:07Z",
  relaykeyid: "key_1",
};

async function stored(options: MessageOptions, ...messages: readonly (string | Partial<RawMessage>)[]) {
  const made = messageBench(options);
  const { intake, told } = desk();
  await made.source.start(intake.accept, { durability: "fsync" });
  const fates: readonly Fate[] = await made.send(...messages);
  return { fates, told, bodies: told.map(({ body }) => JSON.parse(body) as Record<string, unknown>) };
}
const json = (over: Readonly<Record<string, unknown>>): string => JSON.stringify({ ...cloud, ...over });

describe("a CloudEvent in structured mode", () => {
  it("keeps its type, time and data, byte for byte, and its id with a hash of its source", async () => {
    const text = `${JSON.stringify(cloud).slice(0, -1)}, "data" : {"big":12345678901234567890} }`;
    const { told } = await stored({}, text);
    expect(told.map(({ body }) => body)).toEqual([
      '{"id":"A234-1234:2fc4b7c299d7c1c8af31","type":"com.example.order.paid","keyId":"key_1","createdAt":"2026-03-04T05:06:07.000Z","data":{"big":12345678901234567890}}',
    ]);
  });

  it("takes its key from the extension, else from the option, else from its subject", async () => {
    const bare = { ...cloud, relaykeyid: undefined, subject: "key_3" };
    const first = await stored({ keyId: "key_2" }, json({ subject: "key_3" }));
    const second = await stored({ keyId: "key_2" }, JSON.stringify(bare));
    const third = await stored({}, JSON.stringify(bare));
    const none = await stored({}, JSON.stringify({ ...bare, subject: "not a key" }));
    expect([first, second, third].map(({ told }) => told[0]?.keyId)).toEqual(["key_1", "key_2", "key_3"]);
    expect(none.fates).toMatchObject([{ kind: "poison", detail: expect.stringContaining("keyId is missing") }]);
  });

  it("may come in a batch, and without data", async () => {
    const { told } = await stored({}, `[${json({ id: "a" })},${json({ id: "b", data: null })}]`);
    expect(told.map(({ id, body }) => [id, body.endsWith('"data":null}')])).toEqual([
      ["a:2fc4b7c299d7c1c8af31", true],
      ["b:2fc4b7c299d7c1c8af31", true],
    ]);
  });

  it("with bytes gives them as JSON where they are JSON, else as base64", async () => {
    const data = Buffer.from('{"n":1.0}').toString("base64");
    const { told } = await stored(
      {},
      json({ id: "a", data_base64: data, datacontenttype: "application/json" }),
      json({ id: "b", data_base64: data, datacontenttype: "image/png" }),
    );
    expect(told[0]?.body).toContain('"data":{"n":1.0}}');
    expect(told[1]?.body).toContain(`"data":"${data}"}`);
  });

  it("gets a plain type and a stable id where the relay refuses its own", async () => {
    const odd = json({ id: "a/b c", type: "com.example/paid..x." });
    const { bodies } = await stored({}, odd, odd, json({ id: "a/b c", source: "/other", type: "x" }));
    expect(bodies.map(({ type }) => type)).toEqual(["com.example_paid._.x._", "x"]);
    expect(bodies[0]?.["id"]).toMatch(/^ce-[0-9a-f]{40}$/);
    expect(bodies[1]?.["id"]).not.toBe(bodies[0]?.["id"]);
  });

  it("gets the same id in each version of the relay, also where id and hash are longer than an id may be", async () => {
    const { told } = await stored({}, json({ id: "a".repeat(107) }), json({ id: "a".repeat(108) }));
    expect(told.map(({ id }) => id)).toEqual([
      `${"a".repeat(107)}:2fc4b7c299d7c1c8af31`,
      "ce-7a36795d5d0f1ffad7b215fde448ee26b85767d8",
    ]);
  });

  it("is another event where its source is another, and refused with other data where it is the same", async () => {
    const { told, fates } = await stored(
      {},
      json({}),
      json({ source: "/a" }),
      json({ source: "/a", data: 2 }),
      json({ source: "/a" }),
    );
    expect(new Set(told.map(({ id }) => id)).size).toBe(2);
    expect(fates.map((fate) => (fate.kind === "poison" ? fate.code : fate.kind))).toEqual([
      "stored",
      "stored",
      "IDEMPOTENCY_MISMATCH",
      "stored",
    ]);
  });

  it("that is not valid is set aside", async () => {
    const { fates } = await stored(
      {},
      json({ specversion: "2.0" }),
      json({ id: 7 }),
      json({ time: "soon" }),
      `${json({})}x`,
    );
    expect(fates.map((fate) => (fate.kind === "poison" ? fate.code : ""))).toEqual([
      "VALIDATION_FAILED",
      "VALIDATION_FAILED",
      "VALIDATION_FAILED",
      "INVALID_JSON",
    ]);
  });

  it("is told from an event of ours whose data has a specversion", async () => {
    const { told } = await stored({}, '{"type":"a","keyId":"k","data":{"specversion":"1.0"}}');
    expect(told[0]).toMatchObject({ type: "a", id: "m-1" });
  });
});

describe("a CloudEvent in binary mode", () => {
  const headers = (prefix: string): Record<string, string> =>
    Object.fromEntries(Object.entries(cloud).map(([name, value]) => [prefix + name, value]));

  it.each(["ce-", "ce_", "cloudevents:", "cloudevents_"])(
    "has its attributes in headers that begin with %s",
    async (prefix) => {
      const message = { payload: Buffer.from('{"big":12345678901234567890}'), contentType: "application/json" };
      const { told } = await stored({}, { ...message, headers: headers(prefix) });
      expect(told.map(({ body }) => body)).toEqual([
        '{"id":"A234-1234:2fc4b7c299d7c1c8af31","type":"com.example.order.paid","keyId":"key_1","createdAt":"2026-03-04T05:06:07.000Z","data":{"big":12345678901234567890}}',
      ]);
    },
  );

  it("gives text as a string, other bytes as base64, and no payload as null", async () => {
    const of = (id: string, payload: string | Uint8Array, contentType?: string) => ({
      payload,
      contentType,
      headers: { ...headers("ce_"), ce_id: id },
    });
    const { bodies } = await stored(
      {},
      of("a", 'say "hi"', "text/plain"),
      of("b", new Uint8Array([0xff, 0]), "image/png"),
      of("c", "", "application/json"),
    );
    expect(bodies.map(({ data }) => data)).toEqual(['say "hi"', "/wA=", null]);
  });

  it("is set aside where its text is not UTF-8: nothing is signed that was not sent", async () => {
    const of = (id: string, payload: Uint8Array, contentType?: string) => ({
      payload,
      contentType,
      headers: { ...headers("ce-"), "ce-id": id },
    });
    const latin = Buffer.from('{"name":"Zo\u00eb"}', "latin1");
    const { fates, told } = await stored(
      {},
      of("a", latin, "application/json"),
      of("b", latin),
      of("c", latin, "text/plain"),
      json({ id: "d", data_base64: latin.toString("base64"), datacontenttype: "application/json" }),
    );
    expect(told).toEqual([]);
    expect(fates).toMatchObject(Array.from({ length: 4 }, () => ({ kind: "poison", code: "INVALID_JSON" })));
  });

  it("cannot smuggle fields in through its payload", async () => {
    const payload = '1,"createdAt":"2020-01-01T00:00:00Z"';
    const { fates } = await stored({}, { payload, headers: headers("ce-") });
    expect(fates).toMatchObject([{ kind: "poison", code: "INVALID_JSON" }]);
  });
});
