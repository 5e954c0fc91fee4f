// A new master key while the relay serves: nothing stops, nothing is lost wherever it is cut off, and the old key counts no more.
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { request } from "undici";
import { describe, expect, it, vi } from "vitest";
import { createReseal } from "../../core/subscriptions/reseal.ts";
import { SUBSCRIPTION } from "../../core/model/schema.ts";
import { clientKeyAad, clientSecretAad } from "../../core/model/credentials.ts";
import { sealedFor } from "../../core/model/credentials.ts";
import { secretAad } from "../../core/model/subscription.ts";
import { makeKeys } from "../../core/runtime/keys/keyring.ts";
import { verifyHex } from "../../core/signing/verify.ts";
import { testAuthority } from "../support/certificates.ts";
import { runHere } from "../support/command-here.ts";
import { startCommand, type Ran, type Running } from "../support/command.ts";
import { testFolder } from "../support/folder.ts";
import { inject } from "../support/injected.ts";
import { needs } from "../support/needs.ts";
import { startReceiver, type Receiver } from "../support/receiver.ts";
import { shelf } from "../support/shelf.ts";

const key = (byte: number): string => Buffer.alloc(32, byte).toString("base64");

interface Hook {
  readonly id: string;
  readonly secret: string;
}

/** A relay whose keys lie in its folder, as after a first start. */
async function start(folder: string, env: Record<string, string> = {}): Promise<Running & { readonly url: string }> {
  writeFileSync(join(folder, "ca.pem"), (await testAuthority()).ca);
  writeFileSync(
    join(folder, "relay.config.ts"),
    `import { defineRelay } from "relaybox";
export default defineRelay({
  server: { port: 0, shutdownMs: 60_000 }, guard: { allow: ["127.0.0.1:*"], ca: "./ca.pem" },
  limits: { "*": false }, abuse: false, log: { level: "warn" }, subscriptions: { perKey: 500 },
});`,
  );
  const running = startCommand(["start"], { cwd: folder, env });
  const [, url = ""] = await running.waitFor(/listening at (http[^\s"]+)["\n]/);
  return { ...running, url };
}

const run = (folder: string, url: string, ...args: string[]): Promise<Ran> =>
  runHere(args, { cwd: folder, env: { RELAY_URL: url } });

async function ask(relay: { url: string }, token: string, method: string, path: string, body?: unknown) {
  const headers = {
    authorization: `Bearer ${token}`,
    ...(body !== undefined && { "content-type": "application/json" }),
  };
  const got = await request(relay.url + path, {
    method: method as "GET",
    headers,
    body: body === undefined ? null : JSON.stringify(body),
  });
  const text = await got.body.text();
  const json = text === "" ? undefined : JSON.parse(text);
  return { status: got.statusCode, data: json?.data, problem: json?.detail ?? json?.code };
}
const HOOKS = "/api-keys/key_1/webhooks";
const tokenOf = async (folder: string): Promise<string> =>
  (await runHere(["token", "--mfa"], { cwd: folder })).stdout.trim();

async function subscribe(relay: { url: string }, token: string, receiver: Receiver, count: number): Promise<Hook[]> {
  const made = [];
  for (let n = 0; n < count; n++) {
    const body = { url: receiver.url(`/${n}`), events: ["*"], headers: { "X-Key": `value-${n}` } };
    made.push((await ask(relay, token, "POST", HOOKS, body)).data as Hook);
  }
  return made;
}

/** Every receiver is still sent what it can verify, and its header value. */
async function allGood(
  relay: { url: string },
  token: string,
  receiver: Receiver,
  hooks: readonly Hook[],
): Promise<void> {
  const before = receiver.requests.length;
  await Promise.all(
    hooks.map(async ({ id, secret }, n) => {
      const sent = await ask(relay, token, "POST", `${HOOKS}/${id}/test`);
      expect([sent.status, sent.data.statusCode]).toEqual([200, 200]);
      // Events that were published before may still be on their way.
      const got = receiver.requests
        .slice(before)
        .filter(({ path, headers }) => path === `/${n}` && String(headers["webhook-id"]).startsWith("evt_test_"));
      expect(got.map(({ body, headers }) => [verifyHex(body, headers, secret), headers["x-key"]])).toEqual([
        [true, `value-${n}`],
      ]);
    }),
  );
}

describe.concurrent("relay secrets rekey", () => {
  const FANOUT = 8;
  const title = "changes the key under traffic; the old one is good for nothing afterwards";
  it(title, { timeout: 240_000 }, async () => {
    await using receiver = await startReceiver();
    const folder = testFolder();
    const file = (name: string): string => join(folder, "data", "keys", name);
    await runHere(["users", "add", "alice"], { cwd: folder });
    let hooks: Hook[];
    let old: string;
    {
      await using relay = await start(folder);
      const token = await tokenOf(folder);
      // It is for tokens that own every key, with a fresh second factor.
      const lesser = async (...args: string[]): Promise<string> =>
        (await runHere(["token", ...args], { cwd: folder })).stdout.trim();
      const refusals = [lesser("--keys", "key_1", "--mfa"), lesser()].map(
        async (one) => (await ask(relay, await one, "POST", "/relay/rekey")).status,
      );
      expect(await Promise.all(refusals)).toEqual([404, 401]);
      const nobody = await run(folder, "http://127.0.0.1:1", "secrets", "rekey");
      expect([nobody.code, existsSync(file("master.next"))]).toEqual([69, false]);
      hooks = await subscribe(relay, token, receiver, FANOUT);
      old = readFileSync(file("master"), "utf8");
      const begun = await run(folder, relay.url, "users", "totp", "alice", "--json");
      expect(begun.code).toBe(0);
      let over = false;
      let published = 0;
      const traffic = (async () => {
        while (!over) {
          const publish = readFileSync(file("publish-token"), "utf8").trim();
          const got = await ask(relay, publish, "POST", "/events", { type: "a:b", keyId: "key_1", data: published });
          expect(got.status, JSON.stringify(got.problem)).toBe(202);
          published++;
          // Changes too: what is sealed while the key changes is found by the second look.
          if (published % 10 === 0) hooks.push(...(await fresh(relay, token, receiver, hooks.length)));
          // The change takes seconds: this is traffic enough.
          await new Promise((resolve) => setTimeout(resolve, 10));
        }
      })();
      const done = await runHere(["secrets", "rekey", "--json"], { cwd: folder, env: { RELAY_URL: relay.url } });
      over = true;
      await traffic;
      expect([done.code, done.stderr]).toEqual([0, expect.stringContaining("master.next")]);
      expect(JSON.parse(done.stdout)).toMatchObject({ state: "done", unreadable: [] });
      await vi.waitFor(() => expect(receiver.requests.length).toBeGreaterThanOrEqual(published * FANOUT), 60_000);
      expect(readFileSync(file("master"), "utf8")).not.toBe(old);
      expect(readFileSync(file("master.old"), "utf8")).toBe(old);
      expect(existsSync(file("master.next"))).toBe(false);
      await allGood(relay, token, receiver, hooks);
      const trail = await run(folder, relay.url, "audit", "--key", "key_none", "--json", "--limit", "200");
      expect(JSON.parse(trail.stdout).some(({ action }: { action: string }) => action === "secrets.rekeyed")).toBe(
        true,
      );
      relay.kill("SIGTERM");
      expect((await relay.ended).code).toBe(0);
    }
    rmSync(file("master.old"));
    await using again = await start(folder);
    await allGood(again, await tokenOf(folder), receiver, hooks);
    again.kill("SIGTERM");
    await again.ended;
    const refused = await runHere(["start"], { cwd: folder, env: { RELAY_MASTER_KEY: old.trim() } });
    expect([refused.code, refused.stderr]).toEqual([78, expect.stringContaining("has been replaced")]);
  });

  const fresh = async (relay: { url: string }, token: string, receiver: Receiver, n: number): Promise<Hook[]> => {
    const body = { url: receiver.url(`/${n}`), events: ["none"], headers: { "X-Key": `value-${n}` } };
    return [(await ask(relay, token, "POST", HOOKS, body)).data as Hook];
  };

  it(
    "that is cut off at any of its writes is taken up again, and nobody notices",
    { timeout: 240_000 },
    async ({ skip }) => {
      const missing = needs("strace");
      skip(missing !== undefined, missing);
      await using receiver = await startReceiver();
      const folder = testFolder();
      // One thread for files, so that the nth sync is the same one each time.
      let relay = await start(folder, { UV_THREADPOOL_SIZE: "1" });
      try {
        const token = await tokenOf(folder);
        const hooks = await subscribe(relay, token, receiver, 3);
        // Until there is no such write any more, and it comes to its end: then the old key is good for nothing.
        for (let nth = 1, code: number | string = 69; code !== 0; nth++) {
          {
            await using _faulty = await inject(relay.pid, `signal=SIGKILL:when=${nth}`);
            ({ code } = await run(folder, relay.url, "secrets", "rekey", "--json"));
            if (code === 0) relay.kill("SIGKILL");
            await relay.ended;
          }
          if (code === 0) {
            expect(nth, "it is cut off at one of its writes at least").toBeGreaterThan(1);
            rmSync(join(folder, "data", "keys", "master.old"));
          }
          relay = await start(folder, { UV_THREADPOOL_SIZE: "1" });
          await allGood(relay, token, receiver, hooks);
        }
      } finally {
        await relay[Symbol.asyncDispose]();
      }
    },
  );

  it(
    "works with keys from the environment: the new one first, the old one beside it",
    { timeout: 240_000 },
    async () => {
      await using receiver = await startReceiver();
      const folder = testFolder();
      const env = (master: string, older?: string) => ({
        RELAY_MASTER_KEY: master,
        ...(older !== undefined && { RELAY_MASTER_KEY_OLDER: older }),
      });
      let hooks: readonly Hook[];
      {
        await using first = await start(folder, env(key(1)));
        hooks = await subscribe(first, await tokenOf(folder), receiver, 2);
      }
      expect((await runHere(["start"], { cwd: folder, env: env(key(2)) })).code).toBe(78);
      {
        await using both = await start(folder, env(key(2), `${key(3)},${key(1)}`));
        await both.waitFor(/relay secrets rekey/);
        await allGood(both, await tokenOf(folder), receiver, hooks);
        const done = await runHere(["secrets", "rekey", "--json"], {
          cwd: folder,
          env: { ...env(key(2)), RELAY_URL: both.url },
        });
        expect(JSON.parse(done.stdout)).toEqual({ state: "done", sealed: 2, unreadable: [] });
        const twice = await runHere(["secrets", "rekey", "--json"], {
          cwd: folder,
          env: { ...env(key(2)), RELAY_URL: both.url },
        });
        expect(JSON.parse(twice.stdout)).toEqual({ state: "done", sealed: 0, unreadable: [] });
      }
      expect((await runHere(["start"], { cwd: folder, env: env(key(1), key(2)) })).stderr).toContain(
        "has been replaced",
      );
      await using after = await start(folder, env(key(2)));
      await allGood(after, await tokenOf(folder), receiver, hooks);
    },
  );
});

/** Fields that each record of a subscription has. */
const WHOLE = {
  ...{ keyId: "k", url: "https://x/", events: ["*"], status: "active", generation: 1 },
  ...{ createdAt: 0, updatedAt: 0 },
};

describe("sealing anew", () => {
  it("names what no key opens, seals the rest, and leaves what is current alone", async () => {
    const keys = makeKeys({ master: key(2), signing: key(9), publishToken: "t", older: [key(1)] });
    const sealer = (byte: number) => makeKeys({ master: key(byte), signing: key(9), publishToken: "t" });
    const store = shelf();
    const put = (id: string, byte: number): void => {
      const sealed = sealer(byte).seal("whsec_x", secretAad("k", id, 1));
      const secrets = [{ version: 1, sealed, createdAt: 0 }];
      store.rows.set(SUBSCRIPTION.key({ keyId: "k", id }), JSON.stringify({ id, ...WHOLE, secrets }));
    };
    put("sub_old", 1);
    put("sub_new", 2);
    put("sub_lost", 3);
    const reseal = createReseal(store as never, keys);
    const { signal } = new AbortController();
    expect(await reseal(signal)).toEqual({ sealed: 1, unreadable: ["sub_lost"] });
    expect(store.commits).toHaveLength(1);
    expect(await reseal(signal)).toEqual({ sealed: 0, unreadable: ["sub_lost"] });
    const alone = sealer(2);
    const { secrets } = JSON.parse(store.rows.get(SUBSCRIPTION.key({ keyId: "k", id: "sub_old" })) as string);
    expect(alone.open(secrets[0].sealed, sealedFor(secretAad("k", "sub_old", 1), WHOLE.url))).toBe("whsec_x");
  });

  it("seals credentials too", async () => {
    const keys = makeKeys({ master: key(2), signing: key(9), publishToken: "t", older: [key(1)] });
    const before = makeKeys({ master: key(1), signing: key(9), publishToken: "t" });
    const store = shelf();
    const place = SUBSCRIPTION.key({ keyId: "k", id: "sub_1" });
    const record = {
      id: "sub_1",
      ...WHOLE,
      secrets: [{ version: 1, sealed: before.seal("whsec_x", secretAad("k", "sub_1", 1)), createdAt: 0 }],
      clientCertificate: { cert: "PEM", sealedKey: before.seal("a key", clientKeyAad("k", "sub_1")) },
      oauth2: {
        clientId: "me",
        tokenUrl: "https://login.example.com/",
        sealedSecret: before.seal("a secret", clientSecretAad("k", "sub_1")),
      },
    };
    store.rows.set(place, JSON.stringify(record));
    expect(await createReseal(store as never, keys)(new AbortController().signal)).toMatchObject({ sealed: 1 });
    const { clientCertificate, oauth2 } = JSON.parse(store.rows.get(place) as string);
    const alone = makeKeys({ master: key(2), signing: key(9), publishToken: "t" });
    expect(alone.open(clientCertificate.sealedKey, sealedFor(clientKeyAad("k", "sub_1"), WHOLE.url))).toBe("a key");
    expect(alone.open(oauth2.sealedSecret, sealedFor(clientSecretAad("k", "sub_1"), WHOLE.url, oauth2.tokenUrl))).toBe(
      "a secret",
    );
    expect([clientCertificate.cert, oauth2.clientId]).toEqual(["PEM", "me"]);
  });

  it("never undoes a change that came between", async () => {
    const keys = makeKeys({ master: key(2), signing: key(9), publishToken: "t", older: [key(1)] });
    const store = shelf();
    const place = SUBSCRIPTION.key({ keyId: "k", id: "sub_1" });
    const record = (url: string) =>
      JSON.stringify({
        id: "sub_1",
        ...WHOLE,
        url,
        secrets: [
          {
            version: 1,
            sealed: makeKeys({ master: key(1), signing: key(9), publishToken: "t" }).seal(
              "s",
              secretAad("k", "sub_1", 1),
            ),
            createdAt: 0,
          },
        ],
      });
    store.rows.set(place, record("https://before/"));
    let raced = false;
    store.before = () => {
      if (raced) return;
      raced = true;
      store.rows.set(place, record("https://after/"));
    };
    expect(await createReseal(store as never, keys)(new AbortController().signal)).toMatchObject({ sealed: 1 });
    expect(JSON.parse(store.rows.get(place) as string)).toMatchObject({ url: "https://after/" });
  });
});
