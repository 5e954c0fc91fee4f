// Canaries: what is secret appears nowhere but in the one answer that shows it.
import { randomBytes } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { request } from "undici";
import { describe, expect, it } from "vitest";
import { totpCode } from "../../plugins/auth/accounts/codes.ts";
import { startChild } from "../support/child-relay.ts";
import { testFolder } from "../support/folder.ts";
import { kept } from "../support/kept.ts";
import { startReceiver } from "../support/receiver.ts";
import { TEST_KEYS } from "../support/relay.ts";

const PASSWORD = "canary-password-" + randomBytes(9).toString("hex");
const HEADER = "canary-header-" + randomBytes(9).toString("hex");
const OWN = "whsec_" + randomBytes(24).toString("base64");
const METRICS = "canary-metrics-" + randomBytes(9).toString("hex");

/** name → text that must not show. */
const canaries = new Map<string, string>([
  ["password", PASSWORD],
  ["header value", HEADER],
  ["metrics token", METRICS],
  ["master key", TEST_KEYS.master],
  ["signing key", TEST_KEYS.signing],
  ["publish token", TEST_KEYS.publishToken],
]);
/** Answers of the API, but for those that may show a secret. */
const answers: string[] = [];

const folder = testFolder();
// The receiver repeats all that it was sent, and the secret that it holds.
const receiver = kept(
  await startReceiver({
    script: ({ headers, path }) => ({
      do: "reply",
      status: path.includes("fail") ? 500 : 200,
      body: JSON.stringify({ headers, held: [...canaries.values()].slice(6) }),
    }),
  }),
);
const relay = kept(
  await startChild(folder, {
    config: `log: { level: "trace" }, metrics: { token: ${JSON.stringify(METRICS)} },
    retry: { attempts: 2, firstDelayMs: 10, factor: 1, maxDelayMs: 10 }, health: false,`,
  }),
);

async function raw(
  method: string,
  path: string,
  token: string | undefined,
  body?: string,
  more: Record<string, string> = {},
) {
  const headers = {
    ...(token !== undefined && { authorization: `Bearer ${token}` }),
    ...(body !== undefined && { "content-type": "application/json" }),
    ...more,
  };
  const got = await request(relay.url + path, { method: method as "GET", headers, body: body ?? null });
  const text = await got.body.text();
  return { status: got.statusCode, headers: got.headers, text, whole: JSON.stringify(got.headers) + text };
}

/** Notes the answer, which is looked through in the end. */
async function noted(method: string, path: string, body?: unknown): Promise<unknown> {
  const got = await relay.call(method, path, body);
  answers.push(`${method} ${path} ${JSON.stringify(got.json)}`);
  return got.json;
}

const keep = (name: string, secret: string): void => void canaries.set(name, secret);
const hooks = "/api-keys/key_1/webhooks";

describe("secrets of a subscription and of accounts", () => {
  let id: string;

  it("are created, rotated, used, failed with and replayed", async () => {
    const made = await relay.call("POST", hooks, {
      url: receiver.url("/ok"),
      events: ["*"],
      secret: OWN,
      headers: { "X-Api-Key": HEADER, Authorization: `Bearer ${HEADER}-bearer` },
    });
    expect(made.status).toBe(201);
    id = made.json.data.id as string;
    answers.push(JSON.stringify(made.json));
    keep("first secret", OWN);
    keep("authorization header", `${HEADER}-bearer`);
    await relay.publish({ type: "a:b", keyId: "key_1", id: "one", data: { plain: true } });
    await receiver.waitFor(1);
    keep("second secret", (await relay.call("POST", `${hooks}/${id}/rotate-secret`)).json.data.secret as string);
    await noted("POST", `${hooks}/${id}/test`);
    await noted("PATCH", `${hooks}/${id}`, { url: receiver.url("/fail"), headers: { "X-Api-Key": HEADER } });
    await relay.publish({ type: "a:b", keyId: "key_1", id: "two", data: {} });
    await expect.poll(async () => (await relay.event("two")).status).toBe("failed");
    await noted("POST", "/api-keys/key_1/events/two/replay");
    await receiver.waitFor(5);
    await noted("POST", `${hooks}/${id}/rotate-secret`, { overlapSeconds: -1 });
    keep(
      "third secret",
      (await relay.call("POST", `${hooks}/${id}/rotate-secret`, { overlapSeconds: 60 })).json.data.secret as string,
    );
    await noted("POST", `${hooks}/${id}/test`);
    await noted("POST", "/api-keys/key_1/replay", {});
  });

  it("log in, enrol, step up, refresh and log out", async () => {
    const code = readFileSync(join(folder, "data", "setup-code"), "utf8").trim();
    const json = (value: unknown): string => JSON.stringify(value);
    const setup = await raw("POST", "/auth/setup", undefined, json({ code, username: "alice", password: PASSWORD }));
    expect(setup.status).toBe(201);
    keep("set-up code", code);
    const cookie = String(setup.headers["set-cookie"]).split(";")[0] as string;
    keep("refresh cookie", (cookie.split("=")[1] as string).split(".")[1] as string);
    const token = JSON.parse(setup.text).data.token as string;
    keep("access token", token);
    const begun = await raw("POST", "/auth/totp", token, json({ password: PASSWORD }));
    const secret = new URL(JSON.parse(begun.text).data.uri as string).searchParams.get("secret") as string;
    keep("second factor", secret);
    const step = Math.floor(Date.now() / 30_000);
    const on = await raw("PUT", "/auth/totp", token, json({ code: totpCode(secret, step) }));
    for (const [i, one] of (JSON.parse(on.text).data.recoveryCodes as string[]).entries())
      keep(`recovery code ${i}`, one);
    const refreshed = await raw("POST", "/auth/refresh", undefined, undefined, { cookie, origin: relay.url });
    expect(refreshed.status).toBe(200);
    keep("refreshed token", JSON.parse(refreshed.text).data.token as string);
  });

  it("are not repeated by any error", async () => {
    const owner = canaries.get("refreshed token") as string;
    for (const [name, secret] of canaries) {
      const q = encodeURIComponent(secret);
      const tries = await Promise.all([
        raw("GET", `/${q}`, undefined),
        raw("GET", `${hooks}/${q}`, owner),
        raw("GET", `${hooks}?${q}=${q}`, owner),
        raw("GET", `/api-keys/key_1/events?cursor=${q}&status=${q}&limit=${q}&since=${q}`, owner),
        raw("GET", hooks, name === "refreshed token" ? undefined : secret.replaceAll(" ", "")),
        raw("POST", hooks, owner, `{"url":"${secret}"`),
        raw(
          "POST",
          hooks,
          owner,
          JSON.stringify({
            url: secret,
            events: [secret],
            retry: secret,
            secret,
            headers: { "X-A": `${secret}\u0001` },
          }),
        ),
        raw("POST", hooks, owner, JSON.stringify({ url: `https://${secret}@hooks.example.com/`, events: ["*"] })),
        raw(
          "POST",
          "/events",
          secret.replaceAll(" ", ""),
          JSON.stringify({ type: "a b", keyId: secret, data: secret }),
        ),
        raw("GET", "/metrics", `${secret}x`),
        raw("GET", hooks, undefined, undefined, { "x-request-id": secret, cookie: `__Host-relay=${secret}` }),
      ]);
      // Each of these costs a password's hashing, and more of them are slowed down.
      if (name === "password" || name === "first secret") {
        const body = { username: secret, password: secret, code: secret };
        tries.push(await raw("POST", "/auth/login", undefined, JSON.stringify(body)));
        tries.push(await raw("POST", "/auth/login", undefined, JSON.stringify({ ...body, username: "alice" })));
      }
      for (const { status, whole } of tries) {
        if (status < 400) continue;
        expect([name, status, whole.includes(secret)]).toEqual([name, status, false]);
      }
    }
    expect((await raw("POST", "/auth/logout", owner)).status).toBe(204);
  });

  it("appear in no answer, no log line, no figure, no audit line and no file, in any spelling", async () => {
    for (const path of [
      "/api-keys",
      "/event-types",
      hooks,
      `${hooks}/${id}`,
      `${hooks}/${id}/deliveries`,
      "/api-keys/key_1/events",
      "/api-keys/key_1/events/one",
      "/api-keys/key_1/events/two",
      "/api-keys/key_1/stats",
      "/api-keys/key_1/audit?limit=200",
      "/relay/status",
      "/auth/users",
      "/readyz",
      "/healthz",
      "/openapi.json",
      "/.well-known/jwks.json",
    ])
      // prettier-ignore
      await noted("GET", path);
    expect(answers.join("")).toContain("[masked]");
    answers.push((await raw("GET", "/metrics", METRICS)).text);
    relay.running.kill("SIGTERM");
    const { code, stdout, stderr } = await relay.running.ended;
    expect(code).toBe(0);
    const places = new Map<string, Buffer>([
      ["an answer", Buffer.from(answers.join("\n"))],
      ["stdout", Buffer.from(stdout)],
      ["the log", Buffer.from(stderr)],
    ]);
    expect(stderr.split("\n").length).toBeGreaterThan(20);
    const data = join(folder, "data");
    const files = readdirSync(data, { recursive: true, withFileTypes: true }).filter((one) => one.isFile());
    expect(files.map(({ name }) => name)).toEqual(expect.arrayContaining([expect.stringMatching(/\.(db|sqlite)/)]));
    for (const file of files) places.set(file.name, readFileSync(join(file.parentPath, file.name)));
    const found: string[] = [];
    for (const [name, secret] of canaries) {
      const bare = secret.replace(/^whsec_/, "");
      const decoded = Buffer.from(bare, "base64");
      const spellings = [
        secret,
        bare,
        encodeURIComponent(secret),
        Buffer.from(secret).toString("hex"),
        decoded.toString("hex"),
        decoded.toString("base64url"),
      ];
      for (const [place, bytes] of places) {
        const shows =
          spellings.some((text) => bytes.includes(text)) || (decoded.length >= 16 && bytes.includes(decoded));
        const base64 = [0, 1, 2].some((shift) => {
          const text = Buffer.concat([Buffer.alloc(shift), Buffer.from(secret)])
            .toString("base64")
            .slice(4, -4);
          return bytes.includes(text);
        });
        if (shows || base64) found.push(`${name} in ${place}`);
      }
    }
    expect(found).toEqual([]);
  });
});
