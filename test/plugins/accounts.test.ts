// accounts(): the law of the port, the first account, sessions, the second factor, refresh, and what an attacker tries.
import { mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { Problem } from "../../core/model/problem.ts";
import type { Auth } from "../../core/ports/auth.ts";
import type { Guess, PluginContext, Route, RouteReply, RouteRequest } from "../../core/ports/plugin.ts";
import { makeKeys, mintToken } from "../../core/runtime/keys/keyring.ts";
import { totpCode } from "../../plugins/auth/accounts/codes.ts";
import { openAccounts, type OpenOptions } from "../../plugins/auth/accounts/open.ts";
import { openUsers, type UserBook } from "../../plugins/auth/accounts/users.ts";
import { createPasswords } from "../../plugins/auth/accounts/passwords.ts";
import { createTurns } from "../../plugins/auth/accounts/turns.ts";
import { accounts } from "../../plugins/auth/accounts.ts";
import { describeAuth } from "../conformance/auth.ts";
import { testClock } from "../support/clock.ts";
import type { TestClock } from "../support/clock.ts";
import { context } from "../support/context.ts";
import { quietLog } from "../support/quiet.ts";
import { answered, routeRequest } from "../support/request.ts";
import { shelf } from "../support/shelf.ts";

const key = (byte: number): string => Buffer.alloc(32, byte).toString("base64");
const keys = makeKeys({ master: key(1), signing: key(2), publishToken: "t" });
/** The rules of the real one at a hundredth of its cost. */
const passwords = createPasswords({ logN: 8, r: 8, p: 1 });
const PASSWORD = "correct horse battery";

let folder: string;
let clock: TestClock;
let store: ReturnType<typeof shelf>;
let log: ReturnType<typeof quietLog>;
let auth: Auth;
let users: UserBook;
let shown: string[];
/** Place and account of each guess. */
const guesses: string[] = [];

const guess: Guess = (place, who, attempt) => {
  guesses.push(`${place} ${who}`);
  return attempt();
};

const surroundings = (more: Partial<PluginContext> = {}) =>
  context({ clock, storage: store, log, keys, dataDir: folder, guess, ...more });
/** @param more of the options, and another keyring in place of `keys` */
const open = ({
  keys: ring = keys,
  ...more
}: Partial<OpenOptions> & { readonly keys?: typeof keys } = {}): Promise<Auth> =>
  openAccounts(surroundings({ keys: ring }), {
    tokenMs: 900_000,
    sessionMs: 43_200_000,
    passwords,
    show: (line) => void shown.push(line),
    ...more,
  });

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "relay-accounts-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));
beforeEach(async () => {
  await rm(join(folder, "setup-code"), { force: true });
  clock = testClock();
  store = shelf();
  log = quietLog();
  shown = [];
  auth = await open();
  users = openUsers(surroundings(), passwords);
});

interface Sent {
  readonly body?: unknown;
  readonly token?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly username?: string;
  readonly on?: Auth;
  readonly address?: string;
}
interface Got {
  readonly status: number;
  readonly code?: string;
  readonly problem?: Problem;
  readonly data?: Readonly<Record<string, unknown>>;
  readonly cookie?: string;
  readonly reply?: RouteReply;
}

/** Through the route as the server would go: who is counted, then the handler. */
async function call(method: string, path: string, sent: Sent = {}): Promise<Got> {
  const route = (sent.on ?? auth).routes?.find((one) => one.method === method && one.path === path) as Route;
  const headers = {
    ...(sent.body === undefined ? {} : { "content-type": "application/json" }),
    ...(sent.token === undefined ? {} : { authorization: `Bearer ${sent.token}` }),
    ...sent.headers,
  };
  const text = typeof sent.body === "string" ? sent.body : JSON.stringify(sent.body ?? "");
  const params: Readonly<Record<string, string>> = sent.username === undefined ? {} : { username: sent.username };
  const request: RouteRequest = {
    ...routeRequest(text, headers),
    ...(sent.address !== undefined && { address: sent.address }),
    method,
    path,
    params,
  };
  try {
    const reply = await answered(route, request);
    const data = typeof reply.body === "string" ? (JSON.parse(reply.body) as { data: Got["data"] }).data : undefined;
    const cookie = /^__Host-relay=([^;]*)/.exec(String(reply.headers?.["set-cookie"] ?? ""))?.[1];
    return { status: reply.status, reply, ...(data && { data }), ...(cookie !== undefined && { cookie }) };
  } catch (error) {
    if (error instanceof Problem) return { status: error.status, code: error.code, problem: error };
    throw error;
  }
}

const setupCode = async (): Promise<string> => (await readFile(join(folder, "setup-code"), "utf8")).trim();
const who = (token: unknown, on: Auth = auth) =>
  on.authenticate(routeRequest("", { authorization: `Bearer ${String(token)}` }));
const login = (more: object = {}, on = auth) =>
  call("POST", "/auth/login", { on, body: { username: "alice", password: PASSWORD, ...more } });
const tokenOf = ({ data }: Got): string => String(data?.["token"]);
/** Begins to enrol, and resolves to the answer, with the secret that it shows. */
async function beginTotp(token: string, code?: string): Promise<Got & { readonly secret: string }> {
  const got = await call("POST", "/auth/totp", { token, body: { password: PASSWORD, code } });
  return { ...got, secret: secretOf(got) };
}
const secretOf = ({ data }: Got): string =>
  URL.parse(String(data?.["uri"]))?.searchParams.get("secret") ?? "there is none";

const setUp = (code: string, username = "alice", password = PASSWORD): Promise<Got> =>
  call("POST", "/auth/setup", { body: { code, username, password } });
const firstAccount = async (): Promise<Got> => setUp(await setupCode(), "Alice");

/** Turns the second factor on and resolves to the secret, with the session that did it. */
async function enrol(): Promise<{
  readonly secret: string;
  readonly session: Got;
  readonly recovery: readonly string[];
}> {
  const session = await login();
  const token = tokenOf(session);
  const { secret } = await beginTotp(token);
  const confirmed = await call("PUT", "/auth/totp", { token, body: { code: now(secret) } });
  return { secret, session: confirmed, recovery: confirmed.data?.["recoveryCodes"] as string[] };
}
const now = (secret: string, ahead = 0): string => totpCode(secret, Math.floor(clock.now() / 30_000) + ahead);
const nextStep = (): Promise<void> => clock.advance(30_000);

interface Owned {
  readonly token: string;
  readonly secret: string;
}
const uriSecret = (uri: string): string => secretOf({ status: 200, data: { uri } });
async function confirmedByOperator(): Promise<void> {
  const secret = uriSecret((await users.beginTotp("alice")).uri);
  await users.confirmTotp("alice", now(secret));
}
async function changedByOwner(token: string, secret: string): Promise<void> {
  await nextStep();
  const next = await beginTotp(token, now(secret));
  expect((await call("PUT", "/auth/totp", { token, body: { code: now(next.secret) } })).status).toBe(200);
}

describe("accounts() keeps the law", () => {
  describeAuth(it, {
    open: () => Promise.resolve(auth),
    token: (claims) => mintToken(keys, { ...claims, mfa: false, ttlMs: 60_000 }, clock),
    request: (headers) => routeRequest("", headers),
  });

  it("and makes nothing before it is set up, and names what is wrong with its options", () => {
    expect(accounts().problems).toEqual([]);
    const wrong = accounts({ tokenMs: 1, origin: "https://x.example/path", nope: 1 } as object);
    expect(wrong.problems?.map(({ path }) => path).sort()).toEqual(["nope", "origin", "tokenMs"]);
  });
});

describe("the first account", () => {
  it("is made with the code in the folder, which is told on the terminal and never in the log", async () => {
    const code = await setupCode();
    expect(code.replaceAll("-", "")).toMatch(/^[A-Z2-7]{26}$/);
    expect((await stat(join(folder, "setup-code"))).mode & 0o777).toBe(0o600);
    expect(shown.join()).toContain(code);
    expect(JSON.stringify([...store.rows, log.lines])).not.toContain(code);
    const made = await firstAccount();
    expect(made.status).toBe(201);
    expect(await who(tokenOf(made))).toMatchObject({ sub: "alice", keys: "*", amr: ["pwd"] });
  });

  it("is the only one that is made so: afterwards the path is gone, and so are code and file", async () => {
    const code = await setupCode();
    await firstAccount();
    const again = await setUp(code, "eve");
    expect(again.code).toBe("NOT_FOUND");
    expect((await call("POST", "/auth/setup", { body: {} })).code).toBe("NOT_FOUND");
    await expect(stat(join(folder, "setup-code"))).rejects.toThrow();
    expect([...store.rows.keys()]).not.toContain("setup");
  });

  it("is one, of two that are made at once", async () => {
    const code = await setupCode();
    const both = await Promise.all([setUp(code), setUp(code, "eve")]);
    expect(both.map(({ status }) => status).sort()).toEqual([201, 404]);
    expect(await users.list()).toHaveLength(1);
  });

  it("cannot be made after five wrong codes, not with the right one either; a restart makes another code", async () => {
    const code = await setupCode();
    for (let i = 0; i < 5; i++) expect((await setUp("AAAA-BBBB")).code).toBe("UNAUTHENTICATED");
    const right = await setUp(code);
    expect(right.code).toBe("UNAUTHENTICATED");
    // The answer, the file, the terminal and the log say so, and what to do: `relay users add` needs no stop.
    for (const said of [right.problem?.detail, await setupCode(), shown.at(-1)])
      expect(said).toMatch(/Restart the relay for a new one, or use `relay users add`/);
    const warned = log.lines.filter(({ level }) => level === "warn");
    expect(warned.map(({ message }) => message)).toEqual([
      ...Array<string>(5).fill("a wrong set-up code"),
      "the set-up code is invalid after five wrong ones",
    ]);
    expect(warned[0]?.fields).toMatchObject({ address: "127.0.0.1", left: 4 });
    expect(JSON.stringify(log.lines)).not.toContain("AAAA-BBBB");
    auth = await open();
    expect(await setupCode()).not.toBe(code);
    expect((await setUp(await setupCode())).status).toBe(201);
  });

  it("is made within an hour of the code; then the next code lies in the same place", async () => {
    const code = await setupCode();
    await clock.advance(3_600_000);
    const late = await setUp(code);
    expect(late.code).toBe("UNAUTHENTICATED");
    expect(await setupCode()).not.toBe(code);
    expect((await firstAccount()).status).toBe(201);
  });

  it("keeps its code over a restart within the hour, and a wrong name or password does not use it up", async () => {
    const code = await setupCode();
    auth = await open();
    expect(await setupCode()).toBe(code);
    const wrong = await setUp(code, "not a name", "short");
    expect(wrong.problem?.extras.errors?.map(({ path }) => path)).toEqual(["username", "password"]);
    expect((await firstAccount()).status).toBe(201);
  });

  it("has a code that lasts no longer once a clock is right that was a day ahead", async () => {
    await clock.step(86_400_000);
    auth = await open();
    const code = await setupCode();
    await clock.step(-86_400_000);
    const late = await setUp(code);
    expect(late.code).toBe("UNAUTHENTICATED");
    expect(await setupCode()).not.toBe(code);
    const next = await setupCode();
    await clock.step(-90_000);
    auth = await open();
    expect(await setupCode()).toBe(next);
    expect((await firstAccount()).status).toBe(201);
  });

  it("may be added by the operator, and then no other is made so", async () => {
    await users.add({ username: "ops", password: PASSWORD, keys: ["*"] });
    expect((await firstAccount().catch(() => ({ code: "NOT_FOUND" }))).code).toBe("NOT_FOUND");
  });
});

describe("a login", () => {
  beforeEach(async () => {
    await firstAccount();
  });

  it("answers with a token of 15 minutes and a cookie that no script can read", async () => {
    const got = await login();
    expect(got.status).toBe(200);
    expect(got.data).toEqual({ token: expect.any(String), expiresAt: "2026-01-01T00:15:00.000Z", amr: ["pwd"] });
    const cookie = String(got.reply?.headers?.["set-cookie"]);
    expect(cookie).toMatch(
      /^__Host-relay=ses_\w+\.[\w-]{43}; Path=\/; HttpOnly; Secure; SameSite=Strict; Max-Age=43200$/,
    );
    expect(JSON.stringify([...store.rows])).not.toContain(got.cookie?.split(".")[1]);
    expect(await who(tokenOf(got))).toMatchObject({ sub: "alice", keys: "*" });
    await clock.advance(931_000);
    expect(await who(tokenOf(got))).toHaveProperty("refused");
  });

  it("takes names in any case, and answers alike to a wrong name and a wrong password", async () => {
    expect((await login({ username: " ALICE " })).status).toBe(200);
    const answers = [await login({ password: "wrong horse battery" }), await login({ username: "nobody" })];
    expect(new Set(answers.map(({ problem }) => JSON.stringify([problem?.code, problem?.detail]))).size).toBe(1);
    expect(answers[0]?.code).toBe("UNAUTHENTICATED");
  });

  it("is checked by scrypt at a cost that slows a thief of the hashes", async () => {
    const real = createPasswords();
    const hash = await real.hash(PASSWORD);
    expect(hash).toMatch(/^scrypt\$15\$8\$3\$/);
    expect([await real.verify(PASSWORD, hash), await real.verify("something else", hash)]).toEqual([true, false]);
  });

  it("hashes once for a known and once for an unknown account", async () => {
    const seen: (string | undefined)[] = [];
    const counting = {
      ...passwords,
      verify: (text: string, hash?: string) => (seen.push(hash), passwords.verify(text, hash)),
    };
    const on = await open({ passwords: counting });
    for (const username of ["alice", "nobody", "../x", "a:b?"])
      await login({ username, password: "wrong horse battery" }, on);
    expect(seen.map((hash) => hash !== undefined)).toEqual([true, false, false, false]);
  });

  it("is slowed for who guesses, also at accounts that are none, and nobody is locked out", async () => {
    for (const username of ["alice", "nobody"]) {
      for (let i = 0; i < 6; i++) {
        const asked = login({ username, password: `wrong ${i} horse battery` });
        if (i >= 3) {
          await clock.whenSleeping();
          expect((clock.sleeping()[0] as number) - clock.now()).toBe(250 * 2 ** (i - 3));
          await clock.advance(250 * 2 ** (i - 3));
        }
        expect((await asked).code).toBe("UNAUTHENTICATED");
      }
    }
    const right = login();
    await clock.whenSleeping();
    await clock.advance(4_000);
    expect((await right).status).toBe(200);
  });

  it.each([
    ["from a new address, of an account that has logged in before", "198.51.100.1", true],
    ["from an address that has logged in before, of a new account", "203.0.113.9", false],
  ])("%s, is not kept out by many addresses that try names", async (_, address, before) => {
    const on = await open({ passwords: createPasswords({ logN: 12, r: 8, p: 1 }) });
    await users.add({ username: "bob", password: PASSWORD, keys: [] });
    const as = (username: string, from: string) =>
      call("POST", "/auth/login", { on, address: from, body: { username, password: PASSWORD } });
    expect((await as("alice", "203.0.113.9")).status).toBe(200);
    let [done, refused] = [0, 0];
    const flood = Array.from({ length: 100 }, async (_one, i) => {
      const { code } = await as(`nobody${i}`, `192.0.2.${i}`);
      if (code === "PROVIDER_BACKPRESSURE") refused++;
      else done++;
    });
    const right = as(before ? "alice" : "bob", address);
    expect((await right).status).toBe(200);
    expect(done).toBeLessThan(15);
    await Promise.all(flood);
    expect([done, refused]).toEqual([42, 58]);
  });

  it("of one address waits behind no more than a few of each other, and every fourth turn is a stranger's", async () => {
    const turns = createTurns();
    const order: string[] = [];
    const ends: (() => void)[] = [];
    const ask = (rank: 0 | 1 | 2, name: string): Promise<string> =>
      turns({ rank, name }, async () => {
        order.push(name);
        await new Promise<void>((resolve) => void ends.push(resolve));
        return "done";
      }).catch((error: Problem) => error.code);
    const asked = [ask(2, "busy"), ask(2, "busy")];
    const many = Array.from({ length: 9 }, () => ask(2, "greedy"));
    expect(await many[8]).toBe("PROVIDER_BACKPRESSURE");
    asked.push(...many, ask(2, "modest"), ...Array.from({ length: 6 }, () => ask(0, "known")));
    for (let i = 0; i < 17; i++) {
      ends.shift()?.();
      await new Promise(setImmediate);
    }
    await Promise.all(asked);
    expect(order.slice(2, 12).join(" ")).toBe("known known known greedy known known known modest greedy greedy");
  });

  it.each<[string, unknown, Record<string, string>, string]>([
    ["no JSON", "{", {}, "INVALID_JSON"],
    ["deep JSON", `{"username":${"[".repeat(65)}${"]".repeat(65)}}`, {}, "INVALID_JSON"],
    ["a name twice", '{"username":"a","username":"b","password":"x"}', {}, "VALIDATION_FAILED"],
    ["an unknown field", { username: "alice", password: PASSWORD, admin: true }, {}, "VALIDATION_FAILED"],
    ["a missing field", { username: "alice" }, {}, "VALIDATION_FAILED"],
    ["a password that is no text", { username: "alice", password: { $ne: "" } }, {}, "VALIDATION_FAILED"],
    ["a list", [], {}, "VALIDATION_FAILED"],
    ["null", "null", {}, "VALIDATION_FAILED"],
    ["a form", "username=alice", { "content-type": "application/x-www-form-urlencoded" }, "UNSUPPORTED_MEDIA_TYPE"],
    ["JSON called text", "{}", { "content-type": "text/plain" }, "UNSUPPORTED_MEDIA_TYPE"],
    ["gzip", "{}", { "content-encoding": "gzip" }, "UNSUPPORTED_MEDIA_TYPE"],
    ["a long body", `{"username":"${"a".repeat(9_000)}"}`, {}, "PAYLOAD_TOO_LARGE"],
  ])("with %s as its body is refused in the words of the interface", async (_, body, headers, code) => {
    expect((await call("POST", "/auth/login", { body, headers })).code).toBe(code);
  });

  it("is counted by address, and by account at that address", async () => {
    const route = auth.routes?.find(({ path }) => path === "/auth/login") as Route;
    const ask = async (body: string, address: string) =>
      (await route.identify?.({ ...routeRequest(body, { "content-type": "application/json" }), address }))?.counted;
    expect(await ask('{"username":"Alice"}', "203.0.113.7")).toEqual(["203.0.113.7", "alice at 203.0.113.7"]);
    expect(await ask("junk", "2001:db8:1:2:3::4")).toEqual(["2001:db8:1:2::/64"]);
    expect(await ask("null", "203.0.113.7")).toEqual(["203.0.113.7"]);
  });

  it("gives tokens that a logout makes dead at once, on other nodes too", async () => {
    const got = await login();
    const other = await login();
    const node = await open();
    expect(await who(tokenOf(got), node)).toHaveProperty("sub");
    const left = await call("POST", "/auth/logout", { token: tokenOf(got) });
    expect([left.status, left.cookie]).toEqual([204, ""]);
    expect(await who(tokenOf(got), node)).toHaveProperty("refused");
    expect(await who(tokenOf(got))).toHaveProperty("refused");
    expect(await who(tokenOf(other))).toHaveProperty("sub");
    expect((await refresh(got.cookie)).code).toBe("UNAUTHENTICATED");
  });

  it("clears away the sessions that are over", async () => {
    for (let i = 0; i < 3; i++) await login();
    await clock.advance(43_200_001);
    await login();
    expect([...store.rows.keys()].filter((name) => name.startsWith("session:"))).toHaveLength(1);
  });

  it("that the storage fails is our fault, not the client's", async () => {
    const got = await login();
    const broken = await open();
    store.getItem = () => Promise.reject(new Error("disk"));
    await expect(who(got.data?.["token"], broken)).rejects.toThrow("disk");
  });
});

const PAGE = { origin: "http://127.0.0.1:8080", host: "127.0.0.1:8080" };
const refresh = (cookie: string | undefined, headers: Record<string, string> = PAGE, on = auth) =>
  call("POST", "/auth/refresh", {
    on,
    headers: { ...(cookie === undefined ? {} : { cookie: `__Host-relay=${cookie}` }), ...headers },
  });

describe("a refresh", () => {
  let cookie: string | undefined;
  beforeEach(async () => {
    await firstAccount();
    ({ cookie } = await login());
  });

  it("gives a new token of the same session until that is over", async () => {
    await clock.advance(3_600_000);
    const got = await refresh(cookie);
    expect(await who(tokenOf(got))).toMatchObject({ sub: "alice", authTime: (clock.now() - 3_600_000) / 1_000 });
    await clock.advance(39_590_000);
    const last = await refresh(cookie);
    expect(Date.parse(last.data?.["expiresAt"] as string) - clock.now()).toBe(10_000);
    await clock.advance(10_000);
    expect((await refresh(cookie)).code).toBe("UNAUTHENTICATED");
  });

  it.each<[string, Record<string, string>]>([
    ["no Origin", { host: PAGE.host }],
    ["another site's Origin", { ...PAGE, origin: "https://evil.example" }],
    ["another port's Origin", { ...PAGE, origin: "http://127.0.0.1:9090" }],
    ["a null Origin", { ...PAGE, origin: "null" }],
    ["plain HTTP beyond loopback", { origin: "http://relay.example.com", host: "relay.example.com" }],
    ["an Origin that only begins so", { ...PAGE, origin: "http://127.0.0.1:8080.evil.example" }],
    ["an Origin with a path", { ...PAGE, origin: "http://127.0.0.1:8080/" }],
    ["a cross-site fetch", { ...PAGE, "sec-fetch-site": "cross-site" }],
  ])("with %s is refused", async (_, headers) => {
    expect((await refresh(cookie, headers)).code).toBe("UNAUTHENTICATED");
  });

  it.each<[string, (good: string) => string]>([
    ["no cookie", () => ""],
    ["another secret", (good) => `${good.split(".")[0]}.${"A".repeat(43)}`],
    ["no secret", (good) => good.split(".")[0] as string],
    ["another session", (good) => `ses_${"0".repeat(26)}.${good.split(".")[1]}`],
    ["a key of the storage", () => "../user:alice.x"],
    ["two cookies", (good) => `${good}; __Host-relay=${good}`],
  ])("with %s is refused", async (_, bend) => {
    expect((await refresh(bend(cookie as string))).code).toBe("UNAUTHENTICATED");
  });

  it("of a session that began by a clock far ahead ends it, also for the time when the clock gets there", async () => {
    await clock.step(86_400_000);
    const { cookie: ahead } = await login();
    expect((await refresh(ahead)).status).toBe(200);
    await clock.step(-86_400_000);
    expect((await refresh(ahead)).code).toBe("UNAUTHENTICATED");
    await clock.advance(86_400_000);
    expect((await refresh(ahead)).code).toBe("UNAUTHENTICATED");
  });

  it("of a session that began by a clock which was minutes ahead goes on", async () => {
    await clock.step(-120_000);
    expect((await refresh(cookie)).status).toBe(200);
  });

  it("and its tokens are good at a node whose clock is minutes behind, not at one that is far behind", async () => {
    const token = tokenOf(await login());
    await clock.step(-90_000);
    expect(await who(token)).toMatchObject({ sub: "alice" });
    await clock.step(-209_000);
    expect(await who(token)).toMatchObject({ sub: "alice" });
    await clock.step(-60_000);
    expect(await who(token)).toHaveProperty("refused");
  });

  it("from HTTPS or a configured origin is good", async () => {
    const secure = { origin: "https://relay.example.com", host: "relay.example.com", "sec-fetch-site": "same-origin" };
    expect((await refresh(cookie, secure)).status).toBe(200);
    const on = await open({ origin: "https://public.example.com" });
    expect((await refresh(cookie, { ...secure, origin: "https://public.example.com" }, on)).status).toBe(200);
    expect((await refresh(cookie, secure, on)).code).toBe("UNAUTHENTICATED");
  });

  it("has a cookie that is good for nothing else", async () => {
    const sent = { headers: { ...PAGE, cookie: `__Host-relay=${cookie}` } };
    expect((await call("POST", "/auth/logout", sent)).code).toBe("UNAUTHENTICATED");
    expect((await call("GET", "/auth/users", sent)).code).toBe("UNAUTHENTICATED");
  });
});

describe("the second factor", () => {
  beforeEach(async () => {
    await firstAccount();
  });

  it("is turned on with the password and a first code, and shows its recovery codes once", async () => {
    const { session, recovery, secret } = await enrol();
    expect(session.data?.["amr"]).toEqual(["pwd", "otp", "mfa"]);
    expect(recovery).toHaveLength(10);
    expect(await who(tokenOf(session))).toMatchObject({
      amr: ["pwd", "otp", "mfa"],
      authTime: clock.now() / 1_000,
    });
    const stored = JSON.stringify([...store.rows]);
    for (const text of [secret, ...recovery]) expect(stored).not.toContain(text);
    expect(await users.list()).toMatchObject([{ username: "alice", totp: true }]);
  });

  it("is asked for at the next login, after the password was right", async () => {
    const { secret } = await enrol();
    await nextStep();
    const without = await login();
    expect(without.code).toBe("STEP_UP_REQUIRED");
    expect(without.problem?.extras.headers?.["WWW-Authenticate"]).toContain("insufficient_user_authentication");
    expect((await login({ password: "wrong horse battery" })).code).toBe("UNAUTHENTICATED");
    expect((await login({ code: "000000" })).code).toBe("UNAUTHENTICATED");
    const got = await login({ code: now(secret) });
    expect(got.data?.["amr"]).toEqual(["pwd", "otp", "mfa"]);
  });

  it("takes a code once, whoever races for it, and never one from before", async () => {
    const { secret } = await enrol();
    await nextStep();
    const same = now(secret);
    const both = await Promise.all([login({ code: same }), login({ code: same })]);
    expect(both.map(({ status }) => status).sort()).toEqual([200, 401]);
    expect((await login({ code: now(secret, -1) })).code).toBe("UNAUTHENTICATED");
    expect((await login({ code: now(secret, 1) })).status).toBe(200);
    expect((await login({ code: now(secret, 2) })).code).toBe("UNAUTHENTICATED");
  });

  it("makes the session fresh again at a step-up, and the refresh keeps its time", async () => {
    const { secret } = await enrol();
    await nextStep();
    const begun = await login({ code: now(secret) });
    await clock.advance(600_000);
    const token = tokenOf(begun);
    expect(await who(token)).toMatchObject({ authTime: (clock.now() - 600_000) / 1_000 });
    expect((await call("POST", "/auth/step-up", { token, body: { code: "123" } })).code).toBe("UNAUTHENTICATED");
    const risen = await call("POST", "/auth/step-up", { token, body: { code: now(secret) } });
    expect(await who(tokenOf(risen))).toMatchObject({
      authTime: clock.now() / 1_000,
      amr: ["pwd", "otp", "mfa"],
    });
    expect((await call("POST", "/auth/step-up", { token, body: { code: now(secret) } })).code).toBe("UNAUTHENTICATED");
    const at = clock.now() / 1_000;
    await clock.advance(60_000);
    expect(await who(tokenOf(await refresh(begun.cookie)))).toMatchObject({ authTime: at });
  });

  it("shown by a clock far ahead does not make the session fresh when the clock gets there", async () => {
    const { secret } = await enrol();
    await nextStep();
    const begun = await login({ code: now(secret) });
    await clock.step(7_200_000);
    const { data } = await refresh(begun.cookie);
    const risen = await call("POST", "/auth/step-up", {
      token: data?.["token"] as string,
      body: { code: now(secret) },
    });
    expect(risen.status).toBe(200);
    await clock.step(-7_200_000);
    expect((await refresh(begun.cookie)).code).toBe("UNAUTHENTICATED");
    await clock.advance(7_200_000);
    expect((await refresh(begun.cookie)).code).toBe("UNAUTHENTICATED");
  });

  it("counts wrong codes against the account, wherever one is taken", async () => {
    const { session } = await enrol();
    const token = tokenOf(session);
    const code = "000000";
    guesses.length = 0;
    await call("POST", "/auth/step-up", { token, body: { code } });
    await beginTotp(token, code);
    await login({ code });
    expect(guesses).toEqual(["POST /auth/step-up alice", "POST /auth/totp alice", "POST /auth/login alice"]);
  });

  it("is not guessed at by a login with a wrong password: nobody locks an account that way", async () => {
    await enrol();
    guesses.length = 0;
    for (let i = 0; i < 2; i++) await login({ password: "wrong horse battery", code: "000000" });
    await login();
    expect(guesses).toEqual([]);
  });

  it("may be a recovery code, once, where the device is lost", async () => {
    const { recovery } = await enrol();
    const code = recovery[3] as string;
    expect((await login({ code: code.toLowerCase().replaceAll("-", " ") })).status).toBe(200);
    expect((await login({ code })).code).toBe("UNAUTHENTICATED");
    expect((await login({ code: recovery[4] })).status).toBe(200);
  });

  it("is changed only with a code of the present one, and other sessions end", async () => {
    const { secret, session } = await enrol();
    await nextStep();
    const other = await login({ code: now(secret) });
    await nextStep();
    const token = tokenOf(session);
    expect((await beginTotp(token)).code).toBe("UNAUTHENTICATED");
    expect((await call("POST", "/auth/totp", { token, body: { password: "wrong horse battery", code: now(secret) } })).code).toBe("UNAUTHENTICATED"); // prettier-ignore
    const { secret: fresh } = await beginTotp(token, now(secret));
    expect((await login({ code: now(secret, 1) })).status).toBe(200);
    expect((await call("PUT", "/auth/totp", { token, body: { code: now(fresh) } })).status).toBe(200);
    expect(await who(tokenOf(other))).toHaveProperty("refused");
    expect(await who(token)).toHaveProperty("sub");
    await nextStep();
    await nextStep();
    expect((await login({ code: now(secret) })).code).toBe("UNAUTHENTICATED");
    expect((await login({ code: now(fresh) })).status).toBe(200);
  });

  it("is not slowed any more by wrong passwords once the right one has come", async () => {
    const token = tokenOf(await login());
    const begin = (password: string): Promise<Got> => call("POST", "/auth/totp", { token, body: { password } });
    for (let i = 0; i < 3; i++) expect((await begin(`wrong ${i} horse battery`)).code).toBe("UNAUTHENTICATED");
    const slowed = begin(PASSWORD);
    await clock.whenSleeping();
    await clock.advance(250);
    expect((await slowed).status).toBe(200);
    expect((await begin(PASSWORD)).status).toBe(200);
  });

  it("cannot be confirmed where it was never begun, or ten minutes ago", async () => {
    const token = tokenOf(await login());
    expect((await call("PUT", "/auth/totp", { token, body: { code: "123456" } })).code).toBe("CONFLICT");
    const { secret } = await beginTotp(token);
    await clock.advance(600_001);
    expect((await call("PUT", "/auth/totp", { token, body: { code: now(secret) } })).code).toBe("CONFLICT");
    expect((await login()).status).toBe(200);
  });

  it("needs a session: a token of `relay token` has none to step up", async () => {
    const token = await mintToken(keys, { sub: "alice", keys: "*", mfa: false, ttlMs: 60_000 }, clock);
    expect((await call("POST", "/auth/step-up", { token, body: { code: "123456" } })).code).toBe("CONFLICT");
  });

  it("has the codes of RFC 6238", () => {
    const secret = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ";
    const of = (seconds: number): string => totpCode(secret, Math.floor(seconds / 30));
    expect([59, 1_111_111_109, 1_234_567_890, 20_000_000_000].map(of)).toEqual([
      "287082",
      "081804",
      "005924",
      "353130",
    ]);
  });
});

describe("users", () => {
  const admin = (mfa = true, owned: readonly string[] | "*" = "*") =>
    mintToken(keys, { sub: "ops", keys: owned, mfa, ttlMs: 60_000 }, clock);
  /** As somebody who may do it. */
  const manage = async (method: string, path: string, sent: Sent = {}): Promise<Got> =>
    call(method, path, { token: await admin(), ...sent });
  const bob = { username: "bob", password: PASSWORD, keys: ["key_1"] };

  it("are managed with a token of every key and a fresh second factor, and by nobody else", async () => {
    expect((await call("GET", "/auth/users", { token: await admin(true, ["key_1"]) })).code).toBe("NOT_FOUND");
    expect((await call("GET", "/auth/users", { token: await admin(false) })).code).toBe("STEP_UP_REQUIRED");
    expect((await call("GET", "/auth/users")).code).toBe("UNAUTHENTICATED");
    expect((await manage("GET", "/auth/users")).data).toEqual([]);
  });

  it("are added, listed, and own the keys that they were given", async () => {
    expect((await manage("POST", "/auth/users", { body: bob })).status).toBe(201);
    expect((await manage("POST", "/auth/users", { body: bob })).code).toBe("CONFLICT");
    const list = await manage("GET", "/auth/users");
    expect(list.data).toEqual([
      { username: "bob", keys: ["key_1"], access: "manage", createdAt: "2026-01-01T00:00:00.000Z", totp: false },
    ]);
    const got = await login({ username: "bob" });
    expect(await who(tokenOf(got))).toMatchObject({ sub: "bob", keys: ["key_1"] });
  });

  it("are listed with the time of their last login, which a refused one does not change", async () => {
    await manage("POST", "/auth/users", { body: bob });
    const lastLogin = async (): Promise<unknown> => {
      const { data } = await manage("GET", "/auth/users");
      return (data as unknown as readonly { readonly lastLoginAt?: string }[])[0]?.lastLoginAt;
    };
    expect(await lastLogin()).toBeUndefined();
    await clock.advance(60_000);
    expect((await login({ username: "bob" })).status).toBe(200);
    const at = new Date(clock.now()).toISOString();
    expect(await lastLogin()).toBe(at);
    await clock.advance(60_000);
    expect((await login({ username: "bob", password: "not the password at all" })).status).toBe(401);
    expect(await lastLogin()).toBe(at);
  });

  it.each<[object, string]>([
    [{ ...bob, username: "a b" }, "username"],
    [{ ...bob, username: "../etc" }, "username"],
    [{ ...bob, password: "elevenchars" }, "password"],
    [{ ...bob, keys: ["*", "key_1"] }, "keys"],
    [{ ...bob, keys: ["a/b"] }, "keys"],
  ])("are not added as %o: the field is named", async (body, path) => {
    const got = await manage("POST", "/auth/users", { body });
    expect(got.problem?.extras.errors?.map((one) => one.path)).toEqual([path]);
  });

  it("are out at once when they are removed; a new one of that name is somebody else", async () => {
    await manage("POST", "/auth/users", { body: bob });
    const got = await login({ username: "bob" });
    expect((await manage("DELETE", "/auth/users/{username}", { username: "bob" })).status).toBe(204);
    await users.add(bob);
    expect(await who(tokenOf(got))).toHaveProperty("refused");
    expect((await refresh(got.cookie)).code).toBe("UNAUTHENTICATED");
    expect((await manage("DELETE", "/auth/users/{username}", { username: "eve" })).code).toBe("NOT_FOUND");
  });

  it.each(["", "null", '{"uid":', '{"uid":"usr_1"}'])(
    "are stopped by no damaged account, session or code: %j",
    async (text) => {
      await firstAccount();
      await users.add({ username: "bob", password: PASSWORD, keys: ["*"] });
      await users.add({ username: "carol", password: PASSWORD, keys: ["*"] });
      const bobs = await login({ username: "bob" });
      expect(bobs.status).toBe(200);
      await store.commit([
        { op: "put", key: "user:bob", value: text },
        { op: "put", key: "session:ses_damaged", value: text },
        { op: "put", key: "setup", value: text },
      ]);
      auth = await open();
      expect((await login()).status).toBe(200);
      expect((await login({ username: "bob" })).status).toBe(401);
      expect((await login({ username: "bob", password: "" })).status).toBeGreaterThan(399);
      expect(await users.list()).toMatchObject([
        { username: "alice", keys: ["*"] },
        { username: "bob", keys: [], damaged: true },
        { username: "carol", keys: ["*"] },
      ]);
      expect(store.rows.has("session:ses_damaged")).toBe(false);
      await expect(users.reset("bob", { password: "another long password" })).rejects.toMatchObject({
        code: "CONFLICT",
      });
      await users.reset("carol", { password: "another long password" });
      // Its sessions end with it.
      await users.remove("bob");
      expect([...store.rows].filter(([key, value]) => key.startsWith("session:") && value.includes('"bob"'))).toEqual(
        [],
      );
      await users.add({ username: "bob", password: PASSWORD, keys: ["*"] });
      // With a damaged code and no account, a start makes another code.
      for (const username of ["alice", "bob", "carol"]) await users.remove(username);
      await store.commit([{ op: "put", key: "setup", value: text }]);
      auth = await open();
      expect((await firstAccount()).status).toBeLessThan(300);
    },
  );

  it("have a new password or no second factor after a reset, which ends their sessions", async () => {
    await firstAccount();
    const { session } = await enrol();
    const reset = (body: object) => manage("POST", "/auth/users/{username}/reset", { username: "alice", body });
    expect((await reset({})).code).toBe("VALIDATION_FAILED");
    expect((await reset({ totp: false })).status).toBe(204);
    expect(await who(tokenOf(session))).toHaveProperty("refused");
    expect((await login()).status).toBe(200);
    expect((await reset({ password: "another horse battery" })).status).toBe(204);
    expect((await login()).code).toBe("UNAUTHENTICATED");
    expect((await login({ password: "another horse battery" })).status).toBe(200);
  });

  it("get a second factor from an operator, and their sessions end then", async () => {
    await firstAccount();
    const { data } = await login();
    const [path, username] = ["/auth/users/{username}/totp", "alice"];
    const begun = await manage("POST", path, { username });
    const secret = secretOf(begun);
    expect((await manage("PUT", path, { username, body: { code: "000000" } })).code).toBe("UNAUTHENTICATED");
    const on = await manage("PUT", path, { username, body: { code: now(secret) } });
    expect(on.data?.["recoveryCodes"]).toHaveLength(10);
    expect(await who(data?.["token"])).toHaveProperty("refused");
    expect((await login()).code).toBe("STEP_UP_REQUIRED");
    expect((await manage("PUT", path, { username, body: { code: now(secret) } })).code).toBe("CONFLICT");
  });

  it.each<[string, (own: Owned) => Promise<unknown>]>([
    ["a logout", ({ token }) => call("POST", "/auth/logout", { token })],
    ["a reset of the second factor", () => users.reset("alice", { totp: false })],
    ["a new password", () => users.reset("alice", { password: `another ${PASSWORD}` })],
    ["another access", () => users.reset("alice", { access: "read" })],
    ["a second factor by an operator", () => confirmedByOperator()],
    ["a second factor of their own", ({ token, secret }) => changedByOwner(token, secret)],
    ["their removal", () => users.remove("alice")],
  ])("have another standing after %s, so that what they handed out ends with their sessions", async (_, end) => {
    await firstAccount();
    const { secret, session } = await enrol();
    const before = await auth.standing?.("alice");
    await nextStep();
    const spare = await login({ code: now(secret) });
    expect(await auth.standing?.("alice")).toBe(before);
    await end({ token: tokenOf(session), secret });
    const after = await auth.standing?.("alice");
    expect(after).not.toBe(before);
    await call("POST", "/auth/logout", { token: tokenOf(spare) });
    expect(await auth.standing?.("alice")).not.toBe(before);
  });

  it("offer no set-up code when they are opened by themselves", async () => {
    await rm(join(folder, "setup-code"), { force: true });
    const fresh = openUsers(surroundings({ storage: shelf() }), passwords);
    expect(await fresh.list()).toEqual([]);
    await expect(stat(join(folder, "setup-code"))).rejects.toThrow();
  });

  it("have second factors that can be sealed again with another master key", async () => {
    await firstAccount();
    const { secret } = await enrol();
    await nextStep();
    const next = makeKeys({ master: key(9), signing: key(2), publishToken: "t", older: [key(1)] });
    const only = makeKeys({ master: key(9), signing: key(2), publishToken: "t" });
    expect(await (await open({ keys: next })).reseal?.()).toBe(1);
    const on = await open({ keys: only });
    expect((await login({ code: now(secret) }, on)).status).toBe(200);
  });

  it("stop that by name with a second factor that no master key opens, and lose one that nobody confirmed", async () => {
    await firstAccount();
    await enrol();
    const other = makeKeys({ master: key(9), signing: key(2), publishToken: "t" });
    const lost = await open({ keys: other });
    await expect(lost.reseal?.()).rejects.toMatchObject({
      code: "CONFLICT",
      message: expect.stringContaining("alice"),
    });
    await users.reset("alice", { totp: false });
    await users.beginTotp("alice");
    expect(await lost.reseal?.()).toBe(0);
    expect((await users.read("alice"))?.user.pending).toBeUndefined();
  });

  it("have tokens that the published keys verify, and nothing private is among those", async () => {
    const jwks = await call("GET", "/.well-known/jwks.json");
    const body = JSON.parse(jwks.reply?.body as string) as { keys: Record<string, unknown>[] };
    expect(body.keys).toEqual([keys.publicJwk()]);
    expect(Object.keys(body.keys[0] as object)).not.toContain("d");
  });
});
