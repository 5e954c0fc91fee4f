// The relay's own keys: made once, kept whole, given rightly or not at all; sealing and signing with them.
import { chmod, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fork } from "node:child_process";
import { once } from "node:events";
import { decodeProtectedHeader, importJWK, jwtVerify } from "jose";
import type { JWK } from "jose";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { loadKeys, makeKeys, mintToken } from "../../core/runtime/keys/keyring.ts";
import { testClock } from "../support/clock.ts";

let dataDir: string;
beforeEach(async () => {
  dataDir = join(await mkdtemp(join(tmpdir(), "relay-keys-")), "data");
});
afterEach(() => rm(join(dataDir, ".."), { recursive: true, force: true }));

const key = (byte: number): string => Buffer.alloc(32, byte).toString("base64");
const load = (more: object = {}) => loadKeys({ dataDir, given: {}, shared: false, ...more });

describe("keys of a first start", () => {
  it("are made in files that only their owner can read, and told by path", async () => {
    const { made } = await load();
    expect(made.map((path) => path.slice(dataDir.length))).toEqual([
      "/keys/master",
      "/keys/signing",
      "/keys/publish-token",
    ]);
    for (const path of made) expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect((await stat(join(dataDir, "keys"))).mode & 0o777).toBe(0o700);
    expect((await readdir(join(dataDir, "keys"))).sort()).toEqual(["master", "publish-token", "signing"]);
  });

  it("are the same at the second start", async () => {
    const first = await load();
    const second = await load();
    expect(second.made).toEqual([]);
    expect(second.keys.masterFingerprint).toBe(first.keys.masterFingerprint);
    expect(second.keys.keyId).toBe(first.keys.keyId);
    expect(second.keys.publishToken).toBe(first.keys.publishToken);
  });

  it("are the same for processes that start at once", async () => {
    const file = join(dataDir, "..", "start.ts");
    const module = new URL("../../core/runtime/keys/keyring.ts", import.meta.url).href;
    await writeFile(
      file,
      `import { loadKeys } from ${JSON.stringify(module)};
       const { keys } = await loadKeys({ dataDir: ${JSON.stringify(dataDir)}, given: {}, shared: false });
       process.send([keys.masterFingerprint, keys.keyId, keys.publishToken].join());`,
    );
    const children = Array.from({ length: 4 }, () => fork(file, { stdio: "inherit" }));
    const said = await Promise.all(
      children.map(async (child) => {
        const ended = once(child, "exit");
        const [text] = (await once(child, "message")) as [string];
        await ended;
        return text;
      }),
    );
    expect(new Set(said).size).toBe(1);
  });

  it("have their modes put right when a copy came with others", async () => {
    const { made } = await load();
    await chmod(made[0] as string, 0o644);
    await load();
    expect((await stat(made[0] as string)).mode & 0o777).toBe(0o600);
  });

  it("a torn file is reported, never replaced", async () => {
    const { made } = await load();
    await writeFile(made[0] as string, "half");
    await expect(load()).rejects.toMatchObject({ exitCode: 78 });
    expect(await readFile(made[0] as string, "utf8")).toBe("half");
  });
});

describe("keys that are given", () => {
  it("are used, and no file is made", async () => {
    const given = { master: key(1), signing: key(2), publishToken: "a-token" };
    const { keys, made } = await load({ given, shared: true });
    expect(made).toEqual([]);
    expect(keys.publishToken).toBe("a-token");
    await expect(stat(dataDir)).rejects.toThrow();
  });

  it.each([
    ["empty", ""],
    ["31 bytes", Buffer.alloc(31).toString("base64")],
    ["33 bytes", Buffer.alloc(33).toString("base64")],
    ["no base64", "?".repeat(44)],
    ["hex", "ab".repeat(32)],
  ])("a master key that is %s ends the start with 78", async (_, master) => {
    await expect(load({ given: { master } })).rejects.toMatchObject({ exitCode: 78 });
  });

  it("all that are missing are named at once when the storage is shared, and none is made", async () => {
    const started = load({ shared: true, given: { signing: key(2) } });
    await expect(started).rejects.toMatchObject({ exitCode: 78, message: expect.stringMatching(/MASTER.*PUBLISH/) });
    await expect(stat(dataDir)).rejects.toThrow();
  });
});

describe("sealing", () => {
  const keys = makeKeys({ master: key(1), signing: key(2), publishToken: "t" });

  it("opens what it sealed, in the same place only", () => {
    const sealed = keys.seal("whsec_ä", "secret:key_1:sub_1:1");
    expect(sealed).toMatch(/^v1\.[\w-]+$/);
    expect(keys.open(sealed, "secret:key_1:sub_1:1")).toBe("whsec_ä");
    expect(() => keys.open(sealed, "secret:key_1:sub_2:1")).toThrow("cannot open");
    expect(keys.seal("whsec_ä", "a")).not.toBe(keys.seal("whsec_ä", "a"));
  });

  it("refuses every changed byte, cut texts and other formats, and tells nothing of the text", () => {
    const sealed = keys.seal("top secret", "a");
    const raw = Buffer.from(sealed.slice(3), "base64url");
    for (let i = 0; i < raw.length; i++) {
      const bent = Buffer.from(raw);
      bent[i] = (bent[i] as number) ^ 1;
      expect(() => keys.open(`v1.${bent.toString("base64url")}`, "a")).toThrow(/^cannot open/);
    }
    for (const text of ["", "v1.", "v1.AAAA", sealed.slice(3), sealed.slice(0, -8), `v2${sealed.slice(2)}`])
      expect(() => keys.open(text, "a")).toThrow(/^cannot open/);
  });

  it("opens with an older master key, and says that it is not current", () => {
    const next = makeKeys({ master: key(9), signing: key(2), publishToken: "t", older: [key(1)] });
    const old = keys.seal("x", "a");
    expect(next.open(old, "a")).toBe("x");
    expect(next.isCurrent(old, "a")).toBe(false);
    expect(next.isCurrent(next.seal("x", "a"), "a")).toBe(true);
    expect(next.masterFingerprint).not.toBe(keys.masterFingerprint);
  });
});

describe("own tokens", () => {
  it("verify with the published key alone", async () => {
    const keys = makeKeys({ master: key(1), signing: key(2), publishToken: "t" });
    const clock = testClock();
    const token = await mintToken(keys, { sub: "ops", keys: "*", mfa: true, ttlMs: 60_000 }, clock);
    const jwk = keys.publicJwk() as JWK;
    expect(Object.keys(jwk)).not.toContain("d");
    const { payload } = await jwtVerify(token, await importJWK(jwk), { currentDate: new Date(clock.now()) });
    const now = clock.now() / 1_000;
    expect(payload).toMatchObject({
      sub: "ops",
      api_keys: ["*"],
      amr: ["mfa"],
      auth_time: now,
      iat: now,
      exp: now + 60,
    });
    expect(decodeProtectedHeader(token)).toEqual({ alg: "EdDSA", typ: "at+jwt", kid: keys.keyId });
  });
});
