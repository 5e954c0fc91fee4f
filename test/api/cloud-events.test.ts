// CloudEvents over HTTP at `POST /events`: structured, in batches, and binary.
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { PUBLISH_TOKEN, serve, type Got, type Served } from "./serve.ts";

const CLOUD = { specversion: "1.0", id: "A-1", source: "/shop", type: "com.example.order.paid", relaykeyid: "key_1" };
const BINARY = {
  "ce-specversion": "1.0",
  "ce-id": "A-1",
  "ce-source": "/shop",
  "ce-type": "com.example.order.paid",
  "ce-relaykeyid": "key_1",
};

let api: Served;
beforeAll(async () => {
  api = await serve();
  await api.path.start();
});
afterAll(() => api[Symbol.asyncDispose]());

const post = (body: unknown, type: string, more: Record<string, string> = {}): Promise<Got> => {
  const text = typeof body === "string" || body instanceof Uint8Array ? body : JSON.stringify(body);
  return api.ask("POST", "/events", { body: text, token: PUBLISH_TOKEN, headers: { "content-type": type, ...more } });
};
const ONE = "application/cloudevents+json";
const MANY = "application/cloudevents-batch+json";

interface Accepted {
  readonly id: string;
  readonly duplicate: boolean;
}
const accepted = ({ json }: Got) => json.data as unknown as Accepted;
const errorsOf = ({ status, json }: Got) => [status, json.code, json.errors?.map(({ path }) => path)];
/** Returns the event's data as receivers get it, byte for byte. */
async function dataOf(id: string): Promise<string> {
  const { text } = await api.ask("GET", `/api-keys/key_1/events/${id}`, { token: "key_1" });
  return /.*"data":(.*),"deliveries"/.exec(text)?.[1] ?? text;
}

describe("a CloudEvent in structured mode", () => {
  it("is stored under its id and source, byte for byte, and once", async () => {
    const text = `${JSON.stringify(CLOUD).slice(0, -1)}, "time": "2026-03-04T05:06:07Z", "data": {"n": 1.0} }`;
    const got = await post(text, `${ONE}; charset=UTF-8`);
    expect([got.status, got.json.data]).toEqual([
      202,
      expect.objectContaining({
        type: "com.example.order.paid",
        createdAt: "2026-03-04T05:06:07.000Z",
        duplicate: false,
      }),
    ]);
    expect(await dataOf(accepted(got).id)).toBe('{"n": 1.0}');
    expect(accepted(await post(text, ONE))).toMatchObject({ id: accepted(got).id, duplicate: true });
    const elsewhere = await post({ ...CLOUD, source: "/other", data: 1 }, ONE);
    expect(accepted(elsewhere).id).not.toBe(accepted(got).id);
  });

  it("may come compressed", async () => {
    const got = await post(gzipSync(JSON.stringify({ ...CLOUD, id: "z" })), ONE, { "content-encoding": "gzip" });
    expect(got.status).toBe(202);
  });

  it.each<[string, unknown, unknown]>([
    ["without an id", { ...CLOUD, id: undefined }, [400, "VALIDATION_FAILED", ["id"]]],
    ["of another version", { ...CLOUD, specversion: "0.3" }, [400, "VALIDATION_FAILED", ["specversion"]]],
    ["that is a plain event", { type: "a:b", keyId: "key_1", data: 1 }, [400, "VALIDATION_FAILED", ["specversion"]]],
    ["without a key", { ...CLOUD, relaykeyid: undefined }, [400, "VALIDATION_FAILED", ["keyId"]]],
    ["that is a list", [CLOUD], [400, "INVALID_JSON", undefined]],
    ["that is no JSON", '{"specversion":"1.0",', [400, "INVALID_JSON", undefined]],
    ["that is too large", { ...CLOUD, data: "x".repeat(300_000) }, [413, "PAYLOAD_TOO_LARGE", undefined]],
  ])("%s is refused", async (_what, body, wanted) => {
    expect(errorsOf(await post(body, ONE))).toEqual(wanted);
  });
});

describe("a batch of CloudEvents", () => {
  it("is answered with a list", async () => {
    const got = await post(
      [
        { ...CLOUD, id: "b1" },
        { ...CLOUD, id: "b2", subject: "x" },
      ],
      MANY,
    );
    expect([got.status, (got.json.data as unknown as Accepted[]).length]).toEqual([202, 2]);
  });

  it("is refused whole, with each mistake and its place", async () => {
    const got = await post(
      [
        { ...CLOUD, id: "b3" },
        { ...CLOUD, type: "" },
        { ...CLOUD, id: 7 },
      ],
      MANY,
    );
    expect(errorsOf(got)).toEqual([400, "VALIDATION_FAILED", ["[1].type", "[2].id"]]);
    expect((await api.ask("GET", "/api-keys/key_1/events?id=b3", { token: "key_1" })).json.data).toEqual([]);
  });

  it.each<[string, unknown, string]>([
    ["of nothing", [], "VALIDATION_FAILED"],
    ["that is one event", CLOUD, "INVALID_JSON"],
    ["of too many", Array.from({ length: 1_001 }, () => 1), "PAYLOAD_TOO_LARGE"],
  ])("%s is refused", async (_what, body, code) => {
    expect((await post(body, MANY)).json.code).toBe(code);
  });
});

describe("a CloudEvent in binary mode", () => {
  it.each<[string, string, string | Uint8Array, string]>([
    ["JSON", "application/json", '{"n": 1.0}', '{"n": 1.0}'],
    ["other JSON", "application/vnd.shop+json; charset=utf-8", "[1]", "[1]"],
    ["text", "text/plain", "Zürich", '"Zürich"'],
    ["bytes", "application/octet-stream", Buffer.of(0, 255), '"AP8="'],
    ["nothing", "application/json", "", "null"],
  ])("of %s keeps it as data", async (what, type, body, data) => {
    const got = await post(body, type, { ...BINARY, "ce-id": encodeURIComponent(`bin ${what} ü`) });
    expect(got.status).toBe(202);
    expect(await dataOf(accepted(got).id)).toBe(data);
  });

  it("is the same event as in structured mode", async () => {
    const first = await post({ ...CLOUD, id: "same", data: 1 }, ONE);
    const second = await post("1", "application/json", { ...BINARY, "ce-id": "same" });
    expect(accepted(second)).toMatchObject({ id: accepted(first).id, duplicate: true });
  });

  it("differs by its headers under an Idempotency-Key", async () => {
    const key = { "idempotency-key": "ce-1" };
    expect((await post("1", "application/json", { ...BINARY, ...key, "ce-id": "i1" })).status).toBe(202);
    expect((await post("1", "application/json", { ...BINARY, ...key, "ce-id": "i2" })).status).toBe(409);
  });

  it("is refused with attributes that are wrong, and with data that is none", async () => {
    expect(errorsOf(await post("1", "application/json", { ...BINARY, "ce-id": "%zz" }))).toEqual([
      ...[400, "VALIDATION_FAILED", ["ce-id"]],
    ]);
    expect(errorsOf(await post("1", "application/json", { "ce-specversion": "1.0" }))[1]).toBe("VALIDATION_FAILED");
    expect((await post("{", "application/json", BINARY)).json.code).toBe("INVALID_JSON");
    expect((await post(Buffer.of(0xff), "text/plain", BINARY)).json.code).toBe("INVALID_JSON");
  });
});

it("a relay that takes CloudEvents says so to who sends something else", async () => {
  const got = await post("x", "text/plain");
  expect([got.status, got.headers["accept"]]).toEqual([
    415,
    "application/json, application/x-ndjson, application/cloudevents+json, application/cloudevents-batch+json",
  ]);
});
