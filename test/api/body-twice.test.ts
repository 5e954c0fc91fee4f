// A body that an auth has read before its endpoint does, such as one that checks a signature of the whole request.
import { describe, expect, it } from "vitest";
import type { Auth } from "../../core/ports/auth.ts";
import type { RouteRequest } from "../../core/ports/route.ts";
import { HOOK, LIST, serve, tokenAuth } from "./serve.ts";

const KIB = 1_024;

/** An auth that does this with each request before it looks at the token. */
function authThat(reads: (request: RouteRequest) => unknown): Auth {
  const tokens = tokenAuth(Date.now);
  return {
    ...tokens,
    async authenticate(request) {
      await reads(request);
      return await tokens.authenticate(request);
    },
  };
}

const chunked = { "transfer-encoding": "chunked" };

describe("a body that an auth has read", { timeout: 60_000 }, () => {
  it.each([
    ["whole", {}],
    ["in chunks", chunked],
  ])("%s reaches its endpoint", async (_, headers) => {
    const seen: string[] = [];
    const auth = authThat(async (request) => seen.push(Buffer.from(await request.body(64 * KIB)).toString()));
    await using api = await serve({ auth });
    const made = await api.ask("POST", LIST, { body: HOOK, headers });
    expect([made.status, seen]).toEqual([201, [JSON.stringify(HOOK)]]);
  });

  it("and does not wait for reaches its endpoint", async () => {
    await using api = await serve({ auth: authThat((request) => void request.body(64 * KIB)) });
    expect((await api.ask("POST", LIST, { body: HOOK })).status).toBe(201);
  });

  it("is refused where it is longer than its endpoint allows", async () => {
    await using api = await serve({ auth: authThat((request) => request.body(1_024 * KIB)) });
    const body = { ...HOOK, description: "x".repeat(64 * KIB) };
    for (const headers of [{}, chunked]) {
      const refused = await api.ask("POST", LIST, { body, headers });
      expect([refused.status, refused.text]).toEqual([413, expect.stringContaining("at most 65536 bytes")]);
    }
  });

  it("reaches its endpoint where the auth found it too long to read", async () => {
    await using api = await serve({ auth: authThat((request) => request.body(1).catch(() => undefined)) });
    expect((await api.ask("POST", LIST, { body: HOOK })).status).toBe(201);
  });
});
