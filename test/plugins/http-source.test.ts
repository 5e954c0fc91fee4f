import { describe, expect, it } from "vitest";
import type { z } from "zod";
import { listedErrors, Problem } from "../../core/model/problem.ts";
import type { Identified, RouteReply } from "../../core/ports/route.ts";
import type { Accepted, Source } from "../../core/ports/source.ts";
import { http, type HttpOptions } from "../../plugins/source/http.ts";
import { describeSource } from "../conformance/source.ts";
import { context } from "../support/context.ts";
import { desk, paid, type Desk } from "../support/intake.ts";
import { refusal } from "../support/refusal.ts";
import { answered, routeRequest } from "../support/request.ts";

const TOKEN = "publish-token-of-a-test";
const HEADERS = { Authorization: `Bearer ${TOKEN}`, "Content-Type": "application/json" };

const open = async (options: HttpOptions = { tokens: [TOKEN] }): Promise<Source> => http(options).setup(context());
const route = (source: Source) => source.routes?.[0] as NonNullable<Source["routes"]>[number];

interface Bench extends Desk {
  post(body: string | Uint8Array, headers?: Readonly<Record<string, string>>): Promise<RouteReply>;
}

async function bench(options?: HttpOptions): Promise<Bench> {
  const made = desk();
  const source = await open(options);
  await source.start(made.intake.accept, { durability: "fsync", admit: () => made.intake.admit() });
  return Object.assign(made, {
    post: (body: string | Uint8Array, headers = {}) =>
      answered(route(source), routeRequest(body, { ...HEADERS, ...headers })),
  });
}

const dataOf = (reply: RouteReply): unknown => (JSON.parse(String(reply.body)) as { data: unknown }).data;
const event = JSON.stringify(paid());

describe("http() keeps the law of a source:", () => {
  describeSource(it, {
    async open() {
      const source = await open();
      return {
        source,
        async publish(text) {
          try {
            const { status } = await answered(route(source), routeRequest(text, HEADERS));
            return status === 202 ? "acknowledged" : "refused";
          } catch (error) {
            return error instanceof Problem && error.status < 429 ? "refused" : "later";
          }
        },
        [Symbol.asyncDispose]: () => source.stop(),
      };
    },
    again: (under, text) => under.publish(text),
  });
});

describe("POST /events", () => {
  it("answers 202 with the event, the time and what the storage promises", async () => {
    const made = await bench();
    const reply = await made.post(event);
    expect(reply.status).toBe(202);
    expect(reply.headers).toMatchObject({ "Content-Type": "application/json", "Relay-Durability": "fsync" });
    expect(JSON.parse(String(reply.body))).toEqual({
      data: {
        id: made.told[0]?.id,
        type: "deposit:paid",
        keyId: "key_1",
        createdAt: "2026-01-01T00:00:00.000Z",
        deliveries: 0,
        duplicate: false,
      },
      meta: { timestamp: "2026-01-01T00:00:00.000Z" },
    });
  });

  it("answers a list with a list, also when it holds one", async () => {
    const made = await bench();
    expect(dataOf(await made.post(` [ ${event} ] `))).toHaveLength(1);
    const two = dataOf(await made.post(`[${event}\n,\t${JSON.stringify(paid({ id: "x" }))}]`)) as Accepted[];
    expect(two.map(({ id }) => id)).toEqual([expect.stringMatching(/^evt_/), "x"]);
    expect(made.shelf.commits).toHaveLength(2);
  });

  it("takes NDJSON, with a last line that is empty or not ended, and with CRLF", async () => {
    const made = await bench();
    for (const body of [event, `${event}\n`, `${event}\r\n\r\n \n`]) {
      const reply = await made.post(body, { "Content-Type": "application/x-ndjson; charset=UTF-8" });
      expect(dataOf(reply)).toHaveLength(1);
    }
  });

  it("leaves out lines of NDJSON that are empty, and names an event by its place among the events", async () => {
    const made = await bench();
    const type = { "Content-Type": "application/x-ndjson" };
    expect(dataOf(await made.post(`\n${event}\n\n \r\n${event}\r\n`, type))).toHaveLength(2);
    const bad = made.post(`${event}\n\n\n{"type":"?"}`, type);
    expect((await refusal(bad)).paths).toEqual(["[1].type", "[1].keyId", "[1].data"]);
    // Files that were put together, each with a mark of its own.
    expect(dataOf(await made.post(`\u{feff}${event}\n\u{feff}${event}`, type))).toHaveLength(2);
  });

  it("names what is wrong by its place in the batch", async () => {
    const made = await bench();
    const lines = Array.from({ length: 20 }, (_, i) => JSON.stringify(paid(i === 17 ? { type: "?" } : {})));
    expect((await refusal(made.post(`[${lines.join()}]`))).paths).toEqual(["[17].type"]);
    const ndjson = made.post(lines.join("\n"), { "Content-Type": "application/x-ndjson" });
    expect((await refusal(ndjson)).paths).toEqual(["[17].type"]);
    expect((await refusal(made.post(JSON.stringify(paid({ type: "?" }))))).paths).toEqual(["type"]);
    expect(made.shelf.commits).toEqual([]);
  });

  it("finds every problem, of which an answer lists the first hundred and counts the others", async () => {
    const made = await bench();
    const { errors } = await refusal(made.post(`[${Array.from({ length: 500 }, () => "{}").join()}]`));
    expect(errors).toHaveLength(1_500);
    const listed = listedErrors(errors);
    expect(listed).toHaveLength(101);
    expect(listed[100]?.message).toBe("and 1400 more problems");
  });

  it("leaves out a byte order mark in front of each form of body", async () => {
    const made = await bench();
    for (const type of ["application/json", "application/x-ndjson"])
      expect((await made.post(`\u{feff}${event}`, { "Content-Type": type })).status).toBe(202);
    expect(dataOf(await made.post(`\u{feff}[${event}]`))).toHaveLength(1);
    expect((await refusal(made.post(`\u{feff}\u{feff}${event}`))).code).toBe("INVALID_JSON");
  });

  it("refuses text that is no JSON, in whatever way", async () => {
    const made = await bench();
    for (const body of [
      "",
      " ",
      "[",
      `[${event}`,
      `[${event},]`,
      `[,${event}]`,
      `[${event}] x`,
      `[${event}}`,
      `[${event} ${event}]`,
      `${event} ${event}`,
      "{'a':1}",
      "NaN",
      Buffer.from([0x22, 0xc3, 0x28, 0x22]),
      Buffer.from([0x22, 0xed, 0xa0, 0x80, 0x22]),
      Buffer.from(event, "utf16le"),
      "[".repeat(1_000_000),
      `{"data":${"[".repeat(100_000)}${"]".repeat(100_000)}}`,
      '{"a":'.repeat(50_000),
    ]) {
      expect((await refusal(made.post(body))).code).toBe("INVALID_JSON");
    }
    expect((await refusal(made.post("[]"))).code).toBe("VALIDATION_FAILED");
    expect((await refusal(made.post("null"))).code).toBe("VALIDATION_FAILED");
  });

  it("takes 1,000 events, 8 MiB and 256 KiB an event, and no more", async () => {
    const made = await bench();
    const many = (count: number) => `[${Array.from({ length: count }, () => event).join()}]`;
    expect(dataOf(await made.post(many(1_000)))).toHaveLength(1_000);
    for (const body of [
      many(1_001),
      JSON.stringify(paid({ data: "x".repeat(256 * 1024) })),
      " ".repeat(8 * 1024 * 1024) + event,
    ]) {
      expect((await refusal(made.post(body))).code).toBe("PAYLOAD_TOO_LARGE");
    }
    const lines = `${event}\n`.repeat(1_001);
    const ndjson = made.post(lines, { "Content-Type": "application/x-ndjson" });
    expect((await refusal(ndjson)).code).toBe("PAYLOAD_TOO_LARGE");
    const empty = made.post("\n".repeat(1_000_000), { "Content-Type": "application/x-ndjson" });
    expect((await refusal(empty)).code).toBe("VALIDATION_FAILED");
  });

  it("refuses other content types, and every encoding but gzip and deflate", async () => {
    const made = await bench();
    const refused: readonly Readonly<Record<string, string>>[] = [
      { "Content-Type": "text/plain" },
      { "Content-Type": "" },
      { "Content-Type": "application/json; charset=iso-8859-1" },
      { "Content-Type": "application/json, application/json" },
      { "Content-Encoding": "br" },
      { "Content-Encoding": "gzip, gzip" },
      { "Content-Encoding": "deflate, gzip" },
      { "Content-Encoding": "identity" },
      { "Content-Encoding": "" },
    ];
    for (const headers of refused) {
      expect((await refusal(made.post(event, headers))).code).toBe("UNSUPPORTED_MEDIA_TYPE");
    }
    await made.post(event, { "Content-Type": 'Application/JSON ; charset="utf-8"' });
  });

  it("keeps a traceparent that is one", async () => {
    const made = await bench();
    const good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    for (const traceparent of [
      good,
      `01${good.slice(2)}-more`,
      `${good}-more`,
      `ff${good.slice(2)}`,
      good.toUpperCase(),
      good.replace("4bf92f3577b34da6a3ce929d0e0e4736", "0".repeat(32)),
      good.replace("00f067aa0ba902b7", "0".repeat(16)),
      "",
    ]) {
      await made.post(event, { traceparent });
    }
    expect(made.told.map(({ traceparent }) => traceparent)).toEqual([
      good,
      `01${good.slice(2)}-more`,
      ...Array.from({ length: 6 }, () => undefined),
    ]);
  });

  it("says that it is busy before it reads a body", async () => {
    const source = await open();
    await source.start(desk().intake.accept, {
      durability: "fsync",
      admit: () => {
        throw new Problem("PROVIDER_BACKPRESSURE", "busy", { retryAfter: 2 });
      },
    });
    const request = { ...routeRequest(event, HEADERS), body: () => Promise.reject(new Error("read")) };
    expect((await refusal(answered(route(source), request))).code).toBe("PROVIDER_BACKPRESSURE");
  });

  it("is 503 before it is started and after it is stopped, also for bodies on their way", async () => {
    const source = await open();
    const handle = () => answered(route(source), routeRequest(event, HEADERS));
    expect((await refusal(handle())).code).toBe("SHUTTING_DOWN");
    await source.start(desk().intake.accept, { durability: "fsync" });
    const body = Promise.withResolvers<Uint8Array>();
    const work = answered(route(source), { ...routeRequest(event, HEADERS), body: () => body.promise });
    await source.stop();
    body.resolve(Buffer.from(event));
    expect((await refusal(work)).code).toBe("SHUTTING_DOWN");
    expect((await refusal(handle())).code).toBe("SHUTTING_DOWN");
  });
});

describe("its own description", () => {
  it("takes and refuses the same fields as the relay does", async () => {
    const made = await bench();
    const described = route(await open()).describe?.body;
    const [json] = (Array.isArray(described) ? described : [described]) as readonly { readonly schema: z.ZodType }[];
    const values: Readonly<Record<string, readonly unknown[]>> = {
      type: ["a", "a:b.c", "x".repeat(128), "x".repeat(129), "", "relay:x", "a:", "a b", "ä", 1, null, undefined],
      keyId: ["k", "k".repeat(64), "k".repeat(65), "", "-k", "k:_-", "k.k", 1, undefined],
      id: ["e", "e".repeat(128), "e".repeat(129), "", ":e", "e e", 1, null],
      createdAt: ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.678+02:00", "2026-01-02", "2026-01-02T03:04:05", "", 1],
      data: [null, 0, "", [], {}, undefined],
      surprise: [1],
    };
    for (const [name, all] of Object.entries(values))
      for (const value of all) {
        const one = { type: "deposit:paid", keyId: "key_1", data: 1, [name]: value };
        const taken = await made.post(JSON.stringify(one)).then(
          () => true,
          () => false,
        );
        const said = json?.schema.safeParse(JSON.parse(JSON.stringify(one))).success;
        expect([name, value, said]).toEqual([name, value, taken]);
      }
    const list = (length: number): unknown => Array.from({ length }, () => paid());
    expect([0, 1, 1_000, 1_001].map((length) => json?.schema.safeParse(list(length)).success)).toEqual([
      false,
      true,
      true,
      false,
    ]);
  });
});

describe("publish tokens", () => {
  it("are asked for before anything else is looked at", async () => {
    const made = await bench();
    for (const Authorization of ["", "Bearer", "Bearer ", `Basic ${TOKEN}`, `Bearer ${TOKEN}x`, `Bearer ${TOKEN}, x`]) {
      const { code, problem } = await refusal(made.post("x", { Authorization, "Content-Type": "text/plain" }));
      expect(code).toBe("UNAUTHENTICATED");
      expect(problem.extras.headers?.["WWW-Authenticate"]).toMatch(/^Bearer realm="relay"/);
    }
    expect((await refusal(made.post("x".repeat(1e6), { Authorization: `Bearer ${"x".repeat(1e5)}` }))).code).toBe(
      "UNAUTHENTICATED",
    );
    await made.post(event, { Authorization: `bEARER  ${TOKEN}` });
  });

  it("may be bound to keys; the others are not found", async () => {
    const made = await bench({ tokens: [TOKEN, { token: "other", keys: ["key_2"] }] });
    const Authorization = "Bearer other";
    expect((await refusal(made.post(event, { Authorization }))).code).toBe("NOT_FOUND");
    expect((await made.post(JSON.stringify(paid({ keyId: "key_2" })), { Authorization })).status).toBe(202);
    expect((await made.post(event)).status).toBe(202);
  });

  it("are counted each for itself, by a name that does not tell the token", async () => {
    const source = await open({ tokens: ["a", "b"] });
    const counted = (token: string) => {
      const found = route(source).identify?.(routeRequest("", { Authorization: `Bearer ${token}` }));
      return (found as Identified | undefined)?.counted;
    };
    expect(counted("a")).toMatch(/^publish:[0-9a-f]{32}$/);
    expect(counted("a")).not.toBe(counted("b"));
    expect(() => counted("c")).toThrow(/UNAUTHENTICATED/);
  });

  it("that cannot work are told as problems of the config, all at once, and no factory throws", () => {
    const wrong = {
      tokens: [
        "",
        "a b",
        undefined,
        7,
        "x",
        "x",
        { token: "y", keys: ["-"] },
        { token: "", key: 1 },
        { token: "z", keys: [] },
      ],
      port: 1,
    };
    expect(http(wrong as never).problems?.map(({ path }) => path)).toEqual([
      "port",
      "tokens[0]",
      "tokens[1]",
      "tokens[2]",
      "tokens[3]",
      "tokens[5]",
      "tokens[6].keys",
      "tokens[7].key",
      "tokens[7]",
      "tokens[8].keys",
    ]);
    expect(http({ tokens: [] }).problems).toHaveLength(1);
    expect(http().problems).toEqual([]);
  });

  it("left out are the relay's own, and without any the relay does not start", async () => {
    const source = await http().setup(context({ publishToken: "own" }));
    expect(route(source).identify?.(routeRequest("", { Authorization: "Bearer own" }))).toBeDefined();
    await expect(http().setup(context())).rejects.toThrow(/no publish token/);
    await expect(http().setup(context({ publishToken: "" }))).rejects.toThrow(/no publish token/);
  });
});

describe("Idempotency-Key", () => {
  it("answers a repeat from the first request, and refuses another body under the same key", async () => {
    const made = await bench({ tokens: [TOKEN, "other"] });
    const key = { "Idempotency-Key": '"8e03978e-40d5-43dd"' };
    const first = dataOf(await made.post(event, key)) as Accepted;
    expect(dataOf(await made.post(event, key))).toEqual({ ...first, duplicate: true });
    expect((await refusal(made.post(`${event} `, key))).code).toBe("IDEMPOTENCY_MISMATCH");
    const format = { ...key, "Content-Type": "application/x-ndjson" };
    expect((await refusal(made.post(event, format))).code).toBe("IDEMPOTENCY_MISMATCH");
    const elsewhere = { ...key, Authorization: "Bearer other" };
    expect((dataOf(await made.post(event, elsewhere)) as Accepted).duplicate).toBe(false);
    expect([...made.shelf.rows].join()).not.toContain("8e03978e");
  });

  it("must be 1 to 128 of visible ASCII", async () => {
    const made = await bench();
    for (const value of ["", "a b", "é", "x".repeat(129), "a, b"]) {
      const { code, paths } = await refusal(made.post(event, { "Idempotency-Key": value }));
      expect([code, paths]).toEqual(["VALIDATION_FAILED", ["Idempotency-Key"]]);
    }
    await made.post(event, { "Idempotency-Key": "~".repeat(128) });
  });
});
