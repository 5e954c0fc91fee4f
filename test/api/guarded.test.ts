import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createGuard } from "../../core/guard/index.ts";
import { ConnectError } from "../../core/model/errors.ts";
import { testClock } from "../support/clock.ts";
import { urlVectors, type UrlVector } from "../support/vectors.ts";
import { HOOK, LIST, serve } from "./serve.ts";
import type { Got, Served } from "./serve.ts";

let now: UrlVector | undefined;
let api: Served;
let id: string;

/** The guard as it is, its names answered by the vector under test. */
const guardOf = (vector: UrlVector) =>
  createGuard({
    allow: [],
    ports: vector.config?.ports ?? [443],
    clock: testClock(),
    ownAddresses: () => vector.own_addresses ?? [],
    resolver: () => {
      if (vector.dns_error !== undefined) return Promise.reject(new ConnectError("dns", "no answer"));
      return Promise.resolve((vector.resolve_sequence?.[0] ?? vector.resolves_to ?? []) as string[]);
    },
  });

beforeAll(async () => {
  const register = (url: string) =>
    now === undefined ? Promise.resolve({ ok: true as const, href: url }) : guardOf(now).register(url);
  api = await serve({ registerUrl: register });
  id = ((await api.ask("POST", LIST, { body: HOOK })).json.data as unknown as { id: string }).id;
});
afterAll(() => api[Symbol.asyncDispose]());

/** The guard can know it before the first connection. */
const known = ({ stage, own_addresses, resolve_sequence, dns_error }: UrlVector): boolean =>
  stage === "register" ||
  (stage === "resolve" && dns_error === undefined) ||
  (own_addresses !== undefined && !resolve_sequence);

const malformed = (url: string): boolean => url === "" || url.length > 2_048 || !/^https:/i.test(url);

describe("create and update judge a URL alike", () => {
  it.each(urlVectors.map((vector) => [`${vector.id}: ${vector.why}`, vector] as const))("%s", async (_, vector) => {
    now = vector;
    const create = await api.ask("POST", LIST, { body: { ...HOOK, url: vector.url } });
    const update = await api.ask("PATCH", `${LIST}/${id}`, { body: { url: vector.url } });
    now = undefined;
    const refused = !vector.allowed && vector.redirects_to === undefined && known(vector);
    const expected = refused ? (malformed(vector.url) ? 400 : 422) : undefined;
    const judge = (got: Got, done: number): void => {
      expect([vector.url, got.status]).toEqual([vector.url, expected ?? done]);
      if (expected !== undefined) expect(got.json.errors).toMatchObject([{ path: "url", message: expect.any(String) }]);
      if (expected === 422)
        expect(got.json).toMatchObject({ code: "URL_NOT_ALLOWED", errors: [{ reason: expect.any(String) }] });
    };
    judge(create, 201);
    judge(update, 200);
  });

  it("keeps the subscription as it was when its new URL is refused", async () => {
    await api.ask("PATCH", `${LIST}/${id}`, { body: { url: HOOK.url } });
    now = { ...(urlVectors[0] as UrlVector), url: "x", config: { ports: [1] } };
    const body = { url: "https://127.0.0.1/", description: "not stored" };
    expect((await api.ask("PATCH", `${LIST}/${id}`, { body })).status).toBe(422);
    now = undefined;
    const { data } = (await api.ask("GET", `${LIST}/${id}`)).json;
    expect(data).toMatchObject({ url: HOOK.url });
    expect(data).not.toHaveProperty("description");
  });
});
