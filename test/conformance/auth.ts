/** The law of the auth port: what every auth plug-in must do, wherever its tokens come from. */
import { expect } from "vitest";
import type { Auth, Principal, Refusal } from "../../core/ports/auth.ts";
import type { RouteRequest } from "../../core/ports/plugin.ts";

export interface AuthHarness {
  /** A plug-in that has been set up, and is ready. */
  open(): Promise<Auth>;
  /** A token that it takes, of this subject and these keys (`"*"`: all), for at least a minute. */
  token(claims: { readonly sub: string; readonly keys: readonly string[] | "*" }): Promise<string>;
  /** A request with these headers, in lower case. */
  request(headers: Readonly<Record<string, string>>): RouteRequest;
}

type It = (name: string, law: () => Promise<void>) => unknown;

export function describeAuth(it: It, harness: AuthHarness): void {
  const ask = (auth: Auth, authorization?: string): Promise<Principal | Refusal> =>
    auth.authenticate(harness.request(authorization === undefined ? {} : { authorization }));
  const refused = { refused: expect.any(String) };

  it("tells who a good token belongs to, and which keys they own", async () => {
    const auth = await harness.open();
    expect(auth.ready()).toBe(true);
    const token = await harness.token({ sub: "alice", keys: ["key_1", "live:2"] });
    expect(await ask(auth, `Bearer ${token}`)).toMatchObject({ sub: "alice", keys: ["key_1", "live:2"] });
    const all = await harness.token({ sub: "root", keys: "*" });
    const principal = await ask(auth, `bearer ${all}`);
    expect(principal).toMatchObject({ sub: "root", keys: "*" });
    expect((principal as Principal).expiresAt).toBeGreaterThan(1_500_000_000_000);
  });

  it("a token that owns nothing is somebody all the same", async () => {
    const auth = await harness.open();
    const token = await harness.token({ sub: "bob", keys: [] });
    expect(await ask(auth, `Bearer ${token}`)).toMatchObject({ sub: "bob", keys: [] });
  });

  it("refuses, and never throws for, whatever else stands in Authorization", async () => {
    const auth = await harness.open();
    const token = await harness.token({ sub: "alice", keys: ["key_1"] });
    const [head, body, signature] = token.split(".");
    const hostile = [
      undefined, "", " ", "Bearer", "Bearer ", "Basic YTpi", token, `Token ${token}`, `Bearer ${token} x`,
      `Bearer x, Bearer ${token}`, `Bearer ${token}, Bearer x`, `Bearer ${head}.${body}`, `Bearer ${head}.${body}.`,
      `Bearer .${body}.${signature}`, `Bearer ${head}..${signature}`, `Bearer ${token}.${signature}`, `Bearer ${token}=`,
      `Bearer ${head}.${body}.${"A".repeat(9_000)}`, `Bearer ${"A".repeat(100_000)}`, "Bearer a.b.c", "Bearer ...",
      `Bearer ${head}.${Buffer.from("{}").toString("base64url")}.${signature}`, "Bearer \u0000.\u0000.\u0000", "Bearer e30.e30.e30",
      `Bearer ${Buffer.from("null").toString("base64url")}.${body}.${signature}`,
    ]; // prettier-ignore
    for (const authorization of hostile) expect(await ask(auth, authorization), authorization).toEqual(refused);
  });

  it("refuses a token with one bit changed anywhere in its signature", async () => {
    const auth = await harness.open();
    const token = await harness.token({ sub: "alice", keys: ["key_1"] });
    const cut = token.lastIndexOf(".") + 1;
    const bytes = Buffer.from(token.slice(cut), "base64url");
    for (let i = 0; i < bytes.length; i++) {
      const bent = Buffer.from(bytes);
      bent[i] = (bent[i] as number) ^ (1 << (i % 8));
      expect(await ask(auth, `Bearer ${token.slice(0, cut)}${bent.toString("base64url")}`)).toEqual(refused);
    }
  });

  it("looks at no other header, and at no query", async () => {
    const auth = await harness.open();
    const token = await harness.token({ sub: "alice", keys: ["key_1"] });
    const headers = { "x-api-key": token, cookie: `access_token=${token}`, "proxy-authorization": `Bearer ${token}` };
    const request = { ...harness.request(headers), query: new URLSearchParams({ access_token: token }) };
    expect(await auth.authenticate(request)).toEqual(refused);
  });

  it("what refuses tells nothing of the token", async () => {
    const auth = await harness.open();
    const token = await harness.token({ sub: "alice", keys: ["key_1"] });
    const found = (await ask(auth, `Bearer ${token.slice(0, -4)}AAAA`)) as Refusal;
    for (const part of token.split(".")) expect(found.refused).not.toContain(part);
  });
}
