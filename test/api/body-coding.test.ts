// Bodies that come compressed: read as if they were not, bounded by what comes out of them, refused where they are broken.
import { PassThrough } from "node:stream";
import type { IncomingMessage } from "node:http";
import { deflateRawSync, deflateSync, gzipSync } from "node:zlib";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createBodyBudget, HeldBody, readBody } from "../../core/api/http/body.ts";
import { PUBLISH_TOKEN, serve, type Got, type Served } from "./serve.ts";

const MIB = 1_048_576;
const EVENT = JSON.stringify({ type: "deposit:paid", keyId: "key_1", data: { text: "Zürich" } });

let api: Served;
beforeAll(async () => {
  api = await serve();
});
afterAll(() => api[Symbol.asyncDispose]());

const publish = (body: Uint8Array | string, coding: string, more: Record<string, string> = {}): Promise<Got> =>
  api.ask("POST", "/events", { body, token: PUBLISH_TOKEN, headers: { "content-encoding": coding, ...more } });
const codeOf = async (got: Promise<Got>) => {
  const { status, json } = await got;
  return [status, json.code];
};

describe("a body with Content-Encoding", () => {
  it.each<[string, Uint8Array]>([
    ["gzip", gzipSync(EVENT)],
    ["GZip", gzipSync(EVENT)],
    ["x-gzip", gzipSync(EVENT)],
    ["deflate", deflateSync(EVENT)],
  ])("%s is read as what comes out of it", async (coding, body) => {
    for (const framing of [{}, { "transfer-encoding": "chunked" }]) {
      const { status, json } = await publish(body, coding, framing as Record<string, string>);
      expect([status, json.data]).toEqual([202, expect.objectContaining({ type: "deposit:paid", keyId: "key_1" })]);
    }
  });

  it("may be a batch that is longer than a body without", async () => {
    const events = Array.from({ length: 1_000 }, (_, n) =>
      JSON.stringify({ type: "a:b", keyId: "key_1", data: `${n}${"x".repeat(4_000)}` }),
    );
    const body = gzipSync(`[${events.join(",")}]`);
    const { status, json } = await publish(body, "gzip");
    expect([status, (json.data as unknown as readonly object[]).length]).toEqual([202, 1_000]);
  });

  it.each(["br", "zstd", "identity", "gzip, gzip", "deflate, gzip", "gzip;q=1"])("%s is refused", async (coding) => {
    const got = await publish(gzipSync(gzipSync(EVENT)), coding);
    expect([got.status, got.json.code, got.headers["accept-encoding"]]).toEqual([
      ...[415, "UNSUPPORTED_MEDIA_TYPE", "gzip, deflate"],
    ]);
  });

  it("is the same request under an Idempotency-Key, compressed or not", async () => {
    const once = { "idempotency-key": "k-1" };
    const plain = await api.ask("POST", "/events", { body: EVENT, token: PUBLISH_TOKEN, headers: once });
    const again = await publish(gzipSync(EVENT), "gzip", once);
    expect(again.json.data).toEqual({ ...(plain.json.data as unknown as object), duplicate: true });
  });
});

describe("a body that cannot be inflated", () => {
  const whole = gzipSync(EVENT);
  const wrongSum = Buffer.from(whole);
  wrongSum[whole.length - 6] = (wrongSum[whole.length - 6] as number) ^ 0xff;
  it.each<[string, string, Uint8Array]>([
    ["is cut off", "gzip", whole.subarray(0, -9)],
    ["lacks its check sum", "gzip", whole.subarray(0, -8)],
    ["has a wrong check sum", "gzip", wrongSum],
    ["has a wrong check sum", "deflate", Buffer.concat([deflateSync(EVENT).subarray(0, -1), Buffer.of(0)])],
    ["is not compressed", "gzip", Buffer.from(EVENT)],
    ["is deflate, not gzip", "gzip", deflateSync(EVENT)],
    ["has no zlib head", "deflate", deflateRawSync(EVENT)],
    ["is empty", "gzip", Buffer.alloc(0)],
    ["is compressed twice", "gzip", gzipSync(whole)],
  ])("because it %s is refused (%s)", async (_why, coding, body) => {
    expect(await codeOf(publish(body, coding))).toEqual([400, "INVALID_JSON"]);
  });

  it("leaves the connection and the relay as they were", async () => {
    await publish(whole.subarray(0, -9), "gzip");
    expect((await publish(whole, "gzip")).status).toBe(202);
  });
});

describe("a bomb", () => {
  it("is refused while it is read: a thousand times its length never comes out", { timeout: 60_000 }, async () => {
    const bomb = gzipSync(Buffer.alloc(200 * MIB), { level: 9 });
    expect(bomb.length).toBeLessThan(MIB);
    const before = process.memoryUsage().arrayBuffers;
    expect(await codeOf(publish(bomb, "gzip"))).toEqual([413, "PAYLOAD_TOO_LARGE"]);
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(64 * MIB);
    expect((await publish(gzipSync(EVENT), "gzip")).status).toBe(202);
  });

  it("of many members is refused at the same bound", async () => {
    const members = Buffer.concat(Array.from({ length: 20 }, () => gzipSync(Buffer.alloc(MIB, " "))));
    expect(await codeOf(publish(members, "gzip"))).toEqual([413, "PAYLOAD_TOO_LARGE"]);
  });
});

describe("the budget of bodies", () => {
  const upload = () => Object.assign(new PassThrough(), { headers: {} }) as unknown as PassThrough & IncomingMessage;
  const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

  it("counts an inflater from its beginning, and has no room for more of them than fit", async () => {
    const budget = createBodyBudget(MIB, MIB);
    const stalled = Array.from({ length: 20 }, upload);
    const read = stalled.map((req, n) => readBody(req, MIB, new HeldBody(budget, () => [`10.0.0.${n}`]), "gzip"));
    const verdicts = Promise.allSettled(read);
    await turn();
    expect(budget.held()).toBeLessThanOrEqual(MIB);
    for (const req of stalled) req.destroy();
    const refused = (await verdicts).map((one) => String((one as PromiseRejectedResult).reason));
    expect(refused.filter((reason) => reason.includes("Too many bodies"))).toHaveLength(4);
    expect(refused.filter((reason) => reason.includes("went away"))).toHaveLength(16);
    expect(budget.held()).toBe(0);
  });

  it("counts what comes out, and gives it back when the body is refused", async () => {
    const budget = createBodyBudget(2 * MIB, MIB);
    const req = upload();
    const held = new HeldBody(budget, () => ["one"]);
    const read = readBody(req, 4 * MIB, held, "gzip");
    req.end(gzipSync(Buffer.alloc(4 * MIB)));
    await expect(read).rejects.toMatchObject({ code: "PROVIDER_BACKPRESSURE" });
    expect(budget.held()).toBe(0);
  });

  it("reads any body as zlib does, in whatever pieces it comes", async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 5_000 }), fc.integer({ min: 1, max: 400 }), async (bytes, size) => {
        const budget = createBodyBudget(64 * MIB, MIB);
        const req = upload();
        const held = new HeldBody(budget, () => ["one"]);
        const read = readBody(req, MIB, held, "deflate");
        const sent = deflateSync(bytes);
        for (let i = 0; i < sent.length; i += size) req.write(sent.subarray(i, i + size));
        req.end();
        expect(Buffer.from(await read)).toEqual(Buffer.from(bytes));
        held.release();
        expect(budget.held()).toBe(0);
      }),
      { numRuns: 30 },
    );
  });
});
