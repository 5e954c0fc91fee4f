// A transform in the API: what is taken, what is refused, where it is shown, and the list to choose from.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { transformFailed } from "../../core/deliver/send.ts";
import type { Subscription } from "../../core/model/subscription.ts";
import { HOOK, LIST, PUBLISH_TOKEN, serve } from "./serve.ts";
import type { Got, Served } from "./serve.ts";

let api: Served;
let id: string;
let names: readonly string[] = ["slack", "teams"];
const failed = ({ transform = "" }: Subscription, turn: { cycle: number; number: number }) => {
  const { reply, attempt } = transformFailed(turn, `${transform} threw Error: no amount`, {
    startedAt: 0,
    durationMs: 1.5,
  });
  return { reply, attempt: { ...attempt, transform } };
};
beforeAll(async () => {
  api = await serve({
    transforms: {
      transform: (sub, { event }, turn) =>
        Promise.resolve(
          sub.transform === "lost"
            ? failed(sub, turn)
            : { event, body: Buffer.from(JSON.stringify({ by: sub.transform, of: event.type })) },
        ),
      names: () => names,
      reload: () => undefined,
      stop: () => Promise.resolve(),
    },
    more: {
      ping: async (sub) => ({ ordinal: "01J9", attempt: failed(sub, { cycle: 0, number: 1 }).attempt, away: false }),
    },
  });
  const made = await api.ask("POST", LIST, { token: "key_1", body: HOOK });
  id = (made.json.data as unknown as { readonly id: string }).id;
});
afterAll(() => api[Symbol.asyncDispose]());

const patch = (body: object): Promise<Got> => api.ask("PATCH", `${LIST}/${id}`, { token: "key_1", body });
const shown = async (): Promise<object> =>
  (await api.ask("GET", `${LIST}/${id}`, { token: "key_1" })).json.data as unknown as object;
const errors = (got: Got): Record<string, string> =>
  Object.fromEntries((got.json.errors ?? []).map(({ path, message }) => [path, message]));

describe("the transform of a subscription", () => {
  it("is set at its creation or later, shown in every answer, recorded in the audit, and removed by null", async () => {
    const made = await api.ask("POST", LIST, { token: "key_1", body: { ...HOOK, transform: "teams" } });
    expect(made.json.data).toMatchObject({ transform: "teams" });
    expect((await patch({ transform: "slack" })).json.data).toMatchObject({ transform: "slack" });
    expect(await shown()).toMatchObject({ transform: "slack" });
    const listed = (await api.ask("GET", LIST, { token: "key_1" })).json.data as unknown as { transform?: string }[];
    expect(listed.map(({ transform }) => transform).toSorted()).toEqual(["slack", "teams"]);
    await patch({ transform: null });
    expect(await shown()).not.toHaveProperty("transform");
    const audit = (await api.ask("GET", "/api-keys/key_1/audit", { token: "key_1" })).json.data as unknown as {
      readonly action: string;
      readonly detail?: string;
    }[];
    expect(audit.filter(({ detail }) => detail === "transform").map(({ action }) => action)).toEqual([
      "subscription.updated",
      "subscription.updated",
    ]);
  });

  it.each([
    ["sms", "is not a transform of the relay's config (there are: slack, teams)"],
    ["__proto__", "must be the name of a transform"],
    ["", "must be the name of a transform"],
  ])("is refused when the config has none of that name: %j", async (transform, message) => {
    const patched = await patch({ transform });
    expect([patched.status, errors(patched)]).toEqual([400, { transform: message }]);
    const created = await api.ask("POST", LIST, { token: "key_1", body: { ...HOOK, transform } });
    expect([created.status, errors(created)]).toEqual([400, { transform: message }]);
  });

  it("that the config has lost stays until it is changed, and does not keep other fields from being changed", async () => {
    await patch({ transform: "slack" });
    names = [];
    expect((await patch({ transform: "slack", description: "orders" })).status).toBe(200);
    expect(errors(await patch({ transform: "teams" }))).toEqual({
      transform: "is not a transform of the relay's config (it has none)",
    });
    names = ["slack", "teams"];
    await patch({ transform: null });
  });

  it("that fails is named in the attempt, with the reason", async () => {
    await patch({ transform: "slack" });
    const got = await api.ask("POST", `${LIST}/${id}/test`, { token: "key_1" });
    expect(got.json.data).toMatchObject({
      error: "transform",
      detail: "slack threw Error: no amount",
      transform: "slack",
      durationMs: 1.5,
    });
    await patch({ transform: null });
  });
});

describe("the list of transforms", () => {
  it("has their names, for everybody with a token", async () => {
    const got = await api.ask("GET", "/transforms", { token: "none" });
    expect([got.status, got.json.data]).toEqual([200, [{ name: "slack" }, { name: "teams" }]]);
    expect((await api.ask("GET", "/transforms", { token: false })).status).toBe(401);
  });
});

describe("the test of a transform", () => {
  const tested = async (more: object): Promise<Got> =>
    api.ask("POST", `${LIST}/${id}/transform/test`, { token: "key_1", body: more });
  const event = { type: "deposit:paid", data: { amount: 1 } };

  it("shows the body of the named transform, of the stored one, or of none, and sends nothing", async () => {
    await patch({ transform: "slack" });
    expect((await tested({ event })).json.data).toEqual({
      ...{ transform: "slack", made: true, error: null },
      body: '{"by":"slack","of":"deposit:paid"}',
    });
    expect((await tested({ event, transform: "teams" })).json.data).toMatchObject({
      body: '{"by":"teams","of":"deposit:paid"}',
    });
    const { data } = (await tested({ event, transform: null })).json as unknown as { data: { body: string } };
    expect(JSON.parse(data.body)).toMatchObject({ type: "deposit:paid", keyId: "key_1", data: { amount: 1 } });
    expect((await tested({ event, transform: "lost" })).json.data).toEqual({
      ...{ transform: "lost", made: false, body: null },
      error: "lost threw Error: no amount",
    });
  });

  it("takes a stored event of the key, and either that or one in the request", async () => {
    const published = await api.ask("POST", "/events", {
      token: PUBLISH_TOKEN,
      body: { id: "own:1", type: "deposit:paid", keyId: "key_1", data: {} },
    });
    expect(published.status).toBe(202);
    expect((await tested({ eventId: "own:1" })).json.data).toMatchObject({ made: true });
    expect((await tested({ eventId: "own:2" })).status).toBe(404);
    expect(errors(await tested({}))).toEqual({ eventId: "give either eventId or event" });
    expect(errors(await tested({ event, eventId: "own:1" }))).toEqual({ eventId: "give either eventId or event" });
    expect((await tested({ event: { type: "a" } })).status).toBe(400);
  });
});
