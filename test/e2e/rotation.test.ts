// Secrets rotate under traffic: no delivery fails at receivers that check, by the official library or by either hex header.
import { createHmac, timingSafeEqual } from "node:crypto";
import { Webhook } from "standardwebhooks";
import { describe, expect, it } from "vitest";
import { kept } from "../support/kept.ts";
import { startReceiver, type Received, type Receiver } from "../support/receiver.ts";
import { startRelay } from "../support/relay.ts";

/** More of it: `RELAY_ROTATIONS=10000`. */
const ROTATIONS = Number(process.env["RELAY_ROTATIONS"] ?? 1_000);
const AT_ONCE = 8;

const relay = kept(await startRelay({ subscriptions: { perKey: 100 }, delivery: { timeoutMs: 30_000 } }));
const token = await relay.token({ mfa: true });

interface Hook {
  readonly id: string;
  readonly secret: string;
}
const hooks = (keyId: string): string => `/api-keys/${keyId}/webhooks`;

/** Checks a request as a careful receiver does, with the secret that it holds at that moment. Returns what is wrong. */
function verdict({ headers, body }: Received, secret: string): string[] {
  const wrong: string[] = [];
  const expected = createHmac("sha256", secret).update(body).digest();
  const names = ["x-relay-webhook-signature", "x-relay-webhook-signature-previous"];
  const good = names.some((name) => {
    const given = Buffer.from(String(headers[name] ?? ""), "hex");
    return given.length === expected.length && timingSafeEqual(given, expected);
  });
  if (!good) wrong.push("neither hex header");
  try {
    new Webhook(secret).verify(body, headers as Record<string, string>);
  } catch (error) {
    wrong.push(`standardwebhooks: ${(error as Error).message}`);
  }
  return wrong;
}

describe(`${ROTATIONS} rotations under traffic`, () => {
  it(
    "fail no delivery, wherever the receiver's copy of the secret is in its change",
    { timeout: 240_000 },
    async () => {
      const held = new Map<string, string>();
      const wrong: string[] = [];
      await using receiver: Receiver = await startReceiver({
        script: (request) => {
          const path = request.path.slice(1);
          const found = verdict(request, held.get(path) as string);
          wrong.push(...found.map((one) => `${path}: ${one}`));
          return found.length === 0 ? 200 : 401;
        },
      });
      const all: (Hook & { readonly name: string; readonly keyId: string })[] = [];
      for (let n = 0; n < AT_ONCE; n++) {
        const name = `receiver-${n}`;
        const made = await relay.subscribe(receiver.url(`/${name}`), {}, `key_rot_${n}`);
        held.set(name, made.secret);
        all.push({ ...made, name, keyId: `key_rot_${n}` });
      }
      let rotated = 0;
      let published = 0;
      let over = false;
      const began = Date.now();
      const rotating = all.map(async ({ id, keyId, name }) => {
        for (; rotated < ROTATIONS;) {
          rotated++;
          const got = await relay.call("POST", `${hooks(keyId)}/${id}/rotate-secret`, { token });
          expect(got.status).toBe(200);
          // From the answer on the receiver has the new one; until then the old one must do.
          held.set(name, got.json.data.secret as string);
        }
      });
      const publishing = (async () => {
        while (!over) {
          const batch = all.map(({ keyId }) => ({ type: "deposit:paid", keyId, data: { n: published } }));
          expect((await relay.publish(batch)).status).toBe(202);
          published += batch.length;
          await new Promise((resolve) => setImmediate(resolve));
        }
      })();
      await Promise.all(rotating);
      over = true;
      await publishing;
      const took = Date.now() - began;
      await receiver.waitFor(published, 60_000);
      expect(wrong).toEqual([]);
      expect(receiver.requests.filter(({ headers }) => headers["x-relay-attempt"] !== "1")).toEqual([]);
      const overlapped = receiver.requests.filter(({ headers }) => "x-relay-webhook-signature-previous" in headers);
      expect(overlapped.length).toBeGreaterThan(published / 2);
      expect(published).toBeGreaterThan(ROTATIONS / 4);
      // None waits for anything: a second each would be far more.
      expect(took).toBeLessThan(60_000 * Math.max(1, ROTATIONS / 1_000));
    },
  );
});

describe("two rotations at once", () => {
  it("end as one 200 and one 409, and the winner's secret is the one that signs", async () => {
    await using receiver = await startReceiver();
    let losers = 0;
    for (let round = 0; round < 20; round++) {
      const { id } = await relay.subscribe(receiver.url(), {}, "key_race");
      const rotate = () => relay.call("POST", `${hooks("key_race")}/${id}/rotate-secret`, { token });
      const answers = await Promise.all([rotate(), rotate(), rotate()]);
      const statuses = answers.map(({ status }) => status);
      const winners = answers.filter(({ status }) => status === 200);
      expect(statuses.every((status) => status === 200 || status === 409)).toBe(true);
      for (const { status, json } of answers) if (status === 409) expect(json.code).toBe("CONFLICT");
      losers += 3 - winners.length;
      const before = receiver.requests.length;
      await relay.call("POST", `${hooks("key_race")}/${id}/test`, { token });
      const sent = receiver.requests[before] as Received;
      const signs = winners.filter(({ json }) => verdict(sent, json.data.secret as string).length === 0);
      expect(signs.length).toBeGreaterThanOrEqual(1);
      await relay.call("DELETE", `${hooks("key_race")}/${id}`, { token });
    }
    expect(losers).toBeGreaterThan(10);
  });
});

describe("a PATCH to another origin", () => {
  it("never takes a stored header value along, whatever the spelling", async () => {
    await using here = await startReceiver();
    await using there = await startReceiver();
    const move = async (to: string, headers?: unknown): Promise<Received> => {
      const body = {
        url: here.url(),
        events: ["*"],
        headers: { "X-Api-Key": "canary-stored", "X-Plain": "also-stored" },
      };
      const { id } = (await relay.call("POST", hooks("key_move"), { token, body })).json.data as Hook;
      const target = `${hooks("key_move")}/${id}`;
      const patched = await relay.call("PATCH", target, {
        token,
        body: { url: to, ...(headers !== undefined && { headers }) },
      });
      expect(patched.status).toBe(200);
      const got = there.requests.length + here.requests.length;
      await relay.call("POST", `${target}/test`, { token });
      await relay.call("DELETE", target, { token });
      const all = [...there.requests, ...here.requests];
      expect(all).toHaveLength(got + 1);
      return (to.includes(`:${there.port}`) ? there : here).requests.at(-1) as Received;
    };
    for (const headers of [undefined, { "X-Api-Key": null }, { "x-api-key": null, "X-PLAIN": null }]) {
      const sent = await move(there.url("/new"), headers);
      expect(JSON.stringify(sent.rawHeaders)).not.toMatch(/canary-stored|also-stored/);
    }
    const fresh = await move(there.url("/new"), { "X-Api-Key": "given-anew", "X-Plain": null });
    expect([fresh.headers["x-api-key"], fresh.headers["x-plain"]]).toEqual(["given-anew", undefined]);
    const host = await move(`https://localhost:${here.port}/same-port-other-host`);
    expect(JSON.stringify(host.rawHeaders)).not.toMatch(/canary-stored|also-stored/);
    const kept = await move(here.url("/other-path"));
    expect(kept.headers["x-api-key"]).toBe("canary-stored");
    const some = await move(here.url("/other-path"), { "X-Api-Key": null });
    expect([some.headers["x-api-key"], some.headers["x-plain"]]).toEqual(["canary-stored", undefined]);
  });
});
