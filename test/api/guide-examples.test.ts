// The examples of docs/api.md, sent to a relay in their order.
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { startReceiver, type Receiver } from "../support/receiver.ts";
import { startRelay, type TestRelay } from "../support/relay.ts";

interface Example {
  readonly name: string;
  readonly method: string;
  readonly path: string;
  readonly body: string | undefined;
  readonly status: number;
  /** Fields that the answer must have. */
  readonly fields: readonly string[];
  readonly many: boolean;
}

const text = readFileSync(new URL("../../docs/api.md", import.meta.url), "utf8");
const examples: readonly Example[] = [
  ...text.matchAll(/^```http\n([A-Z]+) (\S+)\n(\{.*\}\n)?→ (\d+) ?(.*)\n```$/gm),
].map(([, method = "", path = "", body, status, shape = ""]) => ({
  name: `${method} ${path}`,
  method,
  path,
  body,
  status: Number(status),
  fields: [...shape.matchAll(/"(\w+)"/g)].map(([, field]) => field as string),
  many: shape.startsWith("["),
}));

let relay: TestRelay;
let receiver: Receiver;
let token: string;
const ids: Record<string, string> = {};
beforeAll(async () => {
  receiver = await startReceiver();
  relay = await startRelay();
  token = await relay.token({ sub: "reader", keys: ["key_1"], mfa: true });
  const body = { username: "alice", password: "correct horse battery" };
  await relay.call("POST", "/auth/users", { token: await relay.token({ mfa: true }), body });
});
afterAll(async () => {
  await relay[Symbol.asyncDispose]();
  await receiver[Symbol.asyncDispose]();
});

async function delivered(): Promise<void> {
  const published = await relay.publish({ type: "deposit:paid", keyId: "key_1", data: { amount: "12.50" } });
  ids["eventId"] = published.json.data.id as string;
  await vi.waitFor(async () => {
    const shown = await relay.call("GET", `/api-keys/key_1/events/${ids["eventId"]}`);
    expect(shown.json.data.status).toBe("delivered");
  });
}

describe("the examples of the guide", () => {
  it("are all found", () => {
    expect(examples).toHaveLength(text.match(/^```http$/gm)?.length ?? -1);
    expect(examples.length).toBeGreaterThan(10);
  });

  it.each(examples)("$name", async ({ method, path, body, status, fields, many }) => {
    if (path.includes("{eventId}") && ids["eventId"] === undefined) await delivered();
    if (path.includes("/events?") || path.includes("/attempts?")) await delivered();
    const target = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => ids[name] ?? "");
    const sent = body?.replace("https://hooks.example.com/relay", receiver.url());
    const got = await relay.call(method, target, { token, ...(sent !== undefined && { body: sent.trim() }) });
    expect([got.status, status === 204 ? got.text : ""]).toEqual([status, ""]);
    if (status === 204) return;
    const one = many ? got.json.data[0] : got.json.data;
    expect(Object.keys(one)).toEqual(expect.arrayContaining([...fields]));
    if (!path.includes("deliveries") && !path.includes("audit"))
      expect(Object.keys(one).toSorted()).toEqual(fields.toSorted());
    if (path.endsWith("/webhooks") && method === "POST") ids["subscriptionId"] = one.id as string;
  });
});
