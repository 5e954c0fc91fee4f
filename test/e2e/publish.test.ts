import { connect } from "node:net";
import { readdir, rename, writeFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { http, memory, spool, sqlite } from "../../config/index.ts";
import { request } from "undici";
import { startReceiver } from "../support/receiver.ts";
import { startRelay, TEST_KEYS, type TestRelay } from "../support/relay.ts";

const EVENT = { type: "deposit:paid", keyId: "key_1", data: 1 };
const BEARER = { authorization: `Bearer ${TEST_KEYS.publishToken}` };

async function post(relay: TestRelay, body: string | Buffer, headers: Record<string, string>) {
  const response = await request(`${relay.url}/events`, { method: "POST", body, headers });
  const json = (await response.body.json()) as { code?: string; data?: { id: string }[] };
  return { status: response.statusCode, code: json.code, headers: response.headers, json };
}

describe("publishing over a real socket", () => {
  it("is checked in the order that the answers promise", async () => {
    await using relay = await startRelay({ storage: memory() });
    const gzip = gzipSync(JSON.stringify(EVENT));
    const json = { "content-type": "application/json" };
    const text = { "content-type": "text/plain" };
    const cases: readonly [string | Buffer, Record<string, string>, number, string][] = [
      ["{", { ...text }, 401, "UNAUTHENTICATED"],
      ["{", { ...text, authorization: "Bearer wrong" }, 401, "UNAUTHENTICATED"],
      ["{", { ...text, ...BEARER }, 415, "UNSUPPORTED_MEDIA_TYPE"],
      [gzip, { ...json, ...BEARER, "content-encoding": "gzip" }, 415, "UNSUPPORTED_MEDIA_TYPE"],
      [Buffer.alloc(8 * 1024 * 1024 + 1, 32), { ...json, ...BEARER }, 413, "PAYLOAD_TOO_LARGE"],
      ["{", { ...json, ...BEARER }, 400, "INVALID_JSON"],
      [Buffer.from([0x22, 0xff, 0x22]), { ...json, ...BEARER }, 400, "INVALID_JSON"],
      ["{}", { ...json, ...BEARER }, 400, "VALIDATION_FAILED"],
    ];
    for (const [body, headers, status, code] of cases) {
      const answer = await post(relay, body, headers);
      expect([answer.status, answer.code]).toEqual([status, code]);
      expect(answer.headers["cache-control"]).toBe("no-store");
    }
    const get = await request(`${relay.url}/events`);
    expect([get.statusCode, get.headers["allow"]]).toEqual([405, "POST"]);
    await get.body.dump();
  });

  it("takes NDJSON and says what the storage promises", async () => {
    await using relay = await startRelay({ storage: sqlite() });
    const body = `${JSON.stringify(EVENT)}\n${JSON.stringify({ ...EVENT, id: "a:1" })}\n`;
    const answer = await post(relay, body, { ...BEARER, "content-type": "application/x-ndjson" });
    expect([answer.status, answer.headers["relay-durability"]]).toEqual([202, "fsync"]);
    expect(answer.json.data?.map(({ id }) => id)).toEqual([expect.stringMatching(/^evt_/), "a:1"]);
  });

  it("refuses two Authorization headers, and a token on keys that it is not bound to", async () => {
    const tokens = ["one", { token: "two", keys: ["key_2"] }];
    await using relay = await startRelay({ storage: memory(), sources: [http({ tokens })] });
    const json = { "content-type": "application/json" };
    const foreign = await post(relay, JSON.stringify(EVENT), { ...json, authorization: "Bearer two" });
    expect([foreign.status, foreign.code]).toEqual([404, "NOT_FOUND"]);
    const { hostname, port } = new URL(relay.url);
    const socket = connect(Number(port), hostname);
    const body = JSON.stringify(EVENT);
    socket.end(
      `POST /events HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer one\r\nAuthorization: Bearer one\r\n` +
        `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
    let answer = "";
    for await (const chunk of socket) answer += String(chunk);
    expect(answer).not.toMatch(/^HTTP\/1\.1 202/);
  });

  it("keeps the order and every event of many clients at once", async () => {
    await using relay = await startRelay({ storage: sqlite() });
    const ids = Array.from({ length: 200 }, (_, i) => `order:${i % 100}`);
    const answers = await Promise.all(ids.map((id) => relay.publish({ ...EVENT, id })));
    expect(answers.every(({ status }) => status === 202)).toBe(true);
    expect(answers.filter(({ json }) => json.data.duplicate)).toHaveLength(100);
    const listed = await relay.call("GET", "/api-keys/key_1/events?limit=200");
    expect(listed.json.data).toHaveLength(100);
  });
});

describe("a file in the spool", () => {
  it("is delivered like what is published over HTTP", async () => {
    await using receiver = await startReceiver();
    await using relay = await startRelay({ storage: sqlite(), sources: [http(), spool({ dir: "drop" })] });
    await relay.subscribe(receiver.url("/hook"));
    const dir = join(relay.dataDir, "drop");
    await writeFile(join(dir, ".in"), '{"type":"deposit:paid","keyId":"key_1","data":{ "n":1.0 }}\n');
    await rename(join(dir, ".in"), join(dir, "in.ndjson"));
    await receiver.waitFor(1);
    expect(receiver.requests[0]?.body.toString()).toContain('"data":{ "n":1.0 }}');
    await relay.stop();
    expect(await readdir(join(dir, "done"))).toEqual(["in.ndjson"]);
  });
});
