// The tokens of portal links, on a clock that the test moves: how long they hold, and what they are not taken for.
import { beforeEach, describe, expect, it } from "vitest";
import { memory } from "../../config/index.ts";
import { PORTAL_AUDIENCE, PORTAL_TYP, PortalLinks } from "../../core/api/portal/links.ts";
import { StorageError } from "../../core/model/errors.ts";
import type { Storage } from "../../core/ports/storage.ts";
import { makeKeys, mintToken, type RelayKeys } from "../../core/runtime/keys/keyring.ts";
import { testClock, type TestClock } from "../support/clock.ts";
import { pluginContext } from "../support/plugin-context.ts";
import { TEST_KEYS } from "../support/relay.ts";

const HOUR = 3_600_000;
const actor = { sub: "alice" };
let clock: TestClock;
let storage: Storage;
let keys: RelayKeys;
let standing: string | undefined;
let links: PortalLinks;

const open = (own: RelayKeys = keys): PortalLinks =>
  new PortalLinks({
    storage,
    clock,
    keys: own,
    auth: { standing: () => Promise.resolve(standing) },
  });

beforeEach(async () => {
  clock = testClock();
  storage = await memory().setup(pluginContext(clock, "/nonexistent"));
  keys = makeKeys(TEST_KEYS);
  standing = undefined;
  links = open();
});

const mint = (keyId = "key_a", ttlMs = HOUR, access: "manage" | "read" = "manage") =>
  links.mint({ keyId, access, ttlMs, actor });
const judged = async (token: string, by = links) => await by.judge(`Bearer ${token}`);
const opens = async (token: string, by = links): Promise<boolean> => {
  const found = await judged(token, by);
  return found !== undefined && !("refused" in found);
};
const claimsOf = (token: string) =>
  JSON.parse(Buffer.from(token.split(".")[1] as string, "base64url").toString()) as Record<string, unknown>;

describe("a link", () => {
  it("is its key's and nothing more: no other key, no second factor", async () => {
    const { id, token, expiresAt } = await mint("key:a", HOUR, "read");
    expect(await judged(token)).toEqual({
      sub: `portal:${id}`,
      keys: ["key:a"],
      access: "read",
      amr: [],
      expiresAt,
      portal: id,
    });
  });

  it("ends with its time, give or take what clocks may differ", async () => {
    const { token, expiresAt } = await mint("key_a", 60_000);
    await clock.advance(expiresAt - 1_000 - clock.now());
    expect(await opens(token)).toBe(true);
    await clock.advance(expiresAt + 31_000 - clock.now());
    expect(await opens(token)).toBe(false);
  });

  it("of a node whose clock is far ahead is not valid yet, and of one that is minutes ahead is", async () => {
    const now = clock.now();
    const claims = claimsOf((await mint()).token);
    const at = (ahead: number) => keys.signToken({ ...claims, iat: Math.floor(now / 1_000) + ahead }, PORTAL_TYP);
    expect([await opens(await at(120)), await opens(await at(400))]).toEqual([true, false]);
  });

  it("never lives longer than a day, whatever is signed", async () => {
    const claims = claimsOf((await mint()).token);
    const iat = Math.floor(clock.now() / 1_000);
    const token = await keys.signToken({ ...claims, iat: iat - 90_000, exp: iat + 3_600 }, PORTAL_TYP);
    expect(await opens(token)).toBe(false);
  });

  it.each([
    ["another audience", { aud: "relaybox" }],
    ["another issuer", { iss: "https://id.example.com/" }],
    ["no audience", { aud: undefined }],
    ["no expiry", { exp: undefined }],
    ["no time of issue", { iat: undefined }],
    ["every key", { api_keys: ["*"] }],
    ["two keys", { api_keys: ["key_a", "key_b"] }],
    ["no key", { api_keys: [] }],
    ["another key of the same life", { api_keys: ["key_b"] }],
    ["no life", { life: undefined }],
    ["a life that is no text", { life: 1 }],
    ["an odd id", { jti: "lnk_x" }],
    ["a minter that was never sealed", { minter: "v1.AAAA" }],
  ])("signed with %s opens nothing", async (_, change) => {
    await mint("key_b");
    const claims = claimsOf((await mint()).token);
    expect(await opens(await keys.signToken({ ...claims, ...change }, PORTAL_TYP))).toBe(false);
    expect(claims["aud"]).toBe(PORTAL_AUDIENCE);
  });

  it("with rights that nobody knows may only read", async () => {
    const claims = claimsOf((await mint()).token);
    const token = await keys.signToken({ ...claims, api_access: "admin" }, PORTAL_TYP);
    expect(await judged(token)).toMatchObject({ access: "read" });
  });

  it("of another type is left to the auth, and an access token with its type is no link", async () => {
    const { token } = await mint();
    expect(links.judge(`Bearer ${await keys.signToken(claimsOf(token))}`)).toBeUndefined();
    const own = await mintToken(keys, { sub: "a", keys: ["*"], mfa: true, ttlMs: HOUR }, clock);
    expect(links.judge(`Bearer ${own}`)).toBeUndefined();
    expect(await opens(await keys.signToken(claimsOf(own), PORTAL_TYP))).toBe(false);
  });

  it.each(["", "Bearer", "Bearer x", "Bearer .", "Bearer ..", "Basic a.b.c", `Bearer ${"a".repeat(20_000)}.b.c`])(
    "is none where there is %j",
    (authorization) => {
      expect(links.judge(authorization)).toBeUndefined();
    },
  );

  it("that was changed opens nothing, wherever", async () => {
    const { token } = await mint();
    // The last letter has bits that mean nothing.
    for (let at = 0; at < token.length - 1; at += 7) {
      const changed = `${token.slice(0, at)}${token[at] === "A" ? "B" : "A"}${token.slice(at + 1)}`;
      const found = await judged(changed);
      expect([at, found === undefined || "refused" in found]).toEqual([at, true]);
    }
  });

  it("signed with another key of the relay opens nothing, as after a change of the signing key", async () => {
    const other = makeKeys({ ...TEST_KEYS, signing: Buffer.alloc(32, 9).toString("base64") });
    expect(await opens((await mint()).token, open(other))).toBe(false);
  });
});

describe("its minter", () => {
  it("stands as long as the account is as it was, and the link names nobody", async () => {
    standing = "as made";
    const { token } = await mint();
    expect(JSON.stringify(claimsOf(token))).not.toContain("alice");
    expect(await opens(token)).toBe(true);
    standing = "another password";
    expect(await opens(token)).toBe(false);
    standing = undefined;
    expect(await opens(token)).toBe(false);
  });

  it("cannot be taken over from another link", async () => {
    standing = "as made";
    const [one, other] = [claimsOf((await mint()).token), claimsOf((await mint()).token)];
    expect(await opens(await keys.signToken({ ...one, minter: other["minter"] }, PORTAL_TYP))).toBe(false);
  });

  it("whose account cannot be looked up opens nothing", async () => {
    standing = "as made";
    const { token } = await mint();
    const down = new PortalLinks({
      ...{ storage, clock, keys },
      auth: { standing: () => Promise.reject(new Error("down")) },
    });
    expect(await opens(token, down)).toBe(false);
  });

  it("whose account the storage cannot read now makes the request fail, not the link", async () => {
    standing = "as made";
    const { token } = await mint();
    const fault = new StorageError("unavailable", "down");
    const down = new PortalLinks({
      ...{ storage, clock, keys },
      auth: { standing: () => Promise.reject(fault) },
    });
    await expect(judged(token, down)).rejects.toBe(fault);
  });
});

it("many links made and ended at once leave no link of before the last end", async () => {
  const before = await Promise.all(Array.from({ length: 8 }, () => mint()));
  await Promise.all([links.revoke("key_a", actor), ...before.map(() => mint().catch(() => undefined))]);
  await links.revoke("key_a", actor);
  for (const { token } of before) expect(await opens(token)).toBe(false);
  expect(await opens((await mint()).token)).toBe(true);
});
