// An operator is told of a relay over real TLS: once of a kind within an hour, signed, and never about itself.
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { https, secretFrom, sqlite, toMail, type RelayConfig } from "../../config/index.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { verifyHex } from "../../core/signing/verify.ts";
import { startReceiver, type Received, type Receiver } from "../support/receiver.ts";
import { startRelay, type TestRelay } from "../support/relay.ts";
import { startSmtp } from "../support/smtp.ts";
import { eventually } from "../support/until.ts";

const HOUR = 3_600_000;
const QUICK = { breakerAfter: 2, breakerPauseMs: 30, breakerMaxPauseMs: 30, disableAfterMs: 864_000_000 };
const EVENTS = { events: ["deposit:*"] };
const OPERATOR = "/api-keys/relay:operator";

interface Body {
  readonly type: string;
  readonly keyId: string;
  readonly data: Readonly<Record<string, unknown>>;
}
const read = ({ body }: Received): Body => JSON.parse(body.toString()) as Body;
const typesAt = (receiver: Receiver): readonly string[] => receiver.requests.map((one) => read(one).type);

const told = (receiver: Receiver, more: RelayConfig = {}): RelayConfig => ({
  health: QUICK,
  retry: { attempts: 1 },
  notify: { to: [{ url: receiver.url("/ops") }] },
  ...more,
});

/** Resolves when the config's target is a subscription. */
async function ready(relay: TestRelay, count = 1): Promise<readonly { readonly id: string; readonly url: string }[]> {
  let found: readonly { readonly id: string; readonly url: string }[] = [];
  await eventually("the targets are subscriptions", async () => {
    const { json } = await relay.call("GET", `${OPERATOR}/webhooks`);
    found = json?.data ?? [];
    return found.length === count;
  });
  return found;
}

const publish = (relay: TestRelay) => relay.publish({ type: "deposit:paid", keyId: "key_1", data: {} });

describe("an operator's URL", () => {
  it("hears once of a breaker that opens and closes again and again, signed with the secret of its subscription", async () => {
    await using operator = await startReceiver();
    await using customer = await startReceiver();
    await using relay = await startRelay(told(operator));
    const [target] = await ready(relay);
    const token = await relay.token({ mfa: true });
    const rotated = await relay.call("POST", `${OPERATOR}/webhooks/${target?.id}/rotate-secret`, { token });
    const { id } = await relay.subscribe(customer.url(), EVENTS);
    for (let flaps = 0; flaps < 5; flaps++) {
      const before = customer.requests.length;
      customer.answer([500, 500], 200);
      for (let i = 0; i < 3; i++) await publish(relay);
      await customer.waitFor(before + 3, 30_000);
    }
    await eventually("both have arrived", () => typesAt(operator).includes("relay:breaker.closed"), 30_000);
    await relay.call("PATCH", `/api-keys/key_1/webhooks/${id}`, { body: { status: "disabled" } });
    await eventually(
      "the disabling has arrived",
      () => typesAt(operator).includes("relay:subscription.disabled"),
      30_000,
    );
    expect(typesAt(operator).toSorted()).toEqual([
      "relay:breaker.closed",
      "relay:breaker.opened",
      "relay:subscription.disabled",
      "relay:subscription.failing",
    ]);
    for (const one of operator.requests) {
      expect(read(one)).toMatchObject({ keyId: "relay:operator", data: { keyId: "key_1", subscriptionId: id } });
      expect(verifyHex(one.body, one.headers, rotated.json.data.secret)).toBe(true);
    }
    const disabled = operator.requests.map(read).find(({ type }) => type === "relay:subscription.disabled");
    expect(disabled?.data).toMatchObject({ reason: "by_hand" });
  });

  it("that is down is tried as ever, and nothing is reported about it", async () => {
    await using operator = await startReceiver({ otherwise: 500 });
    await using customer = await startReceiver({ otherwise: 500 });
    await using relay = await startRelay(told(operator, { retry: { attempts: 3, firstDelayMs: 20, factor: 1 } }));
    await ready(relay);
    await relay.subscribe(customer.url(), EVENTS);
    for (let i = 0; i < 4; i++) await publish(relay);
    const failed = async (): Promise<readonly Body[]> =>
      (await relay.call("GET", `${OPERATOR}/events?status=failed`)).json.data as readonly Body[];
    await eventually("both notices have failed", async () => (await failed()).length === 2, 60_000);
    // A notice of these failures would be there by now: it is published before the next look can be.
    await publish(relay);
    await customer.waitFor(13, 60_000);
    const { json } = await relay.call("GET", `${OPERATOR}/events`);
    expect((json.data as readonly Body[]).map(({ type }) => type).toSorted()).toEqual([
      "relay:breaker.opened",
      "relay:subscription.failing",
    ]);
  });

  it("hears some time before the previous secret of a rotation stops to sign, over a restart", async () => {
    const folder = await mkdtemp(join(tmpdir(), "relay-told-"));
    try {
      await using operator = await startReceiver();
      const config = told(operator, { storage: sqlite() });
      let id = "";
      {
        await using relay = await startRelay(config, folder);
        await ready(relay);
        ({ id } = await relay.subscribe(operator.url("/customer"), EVENTS));
        const token = await relay.token({ mfa: true });
        const path = `/api-keys/key_1/webhooks/${id}/rotate-secret`;
        expect((await relay.call("POST", path, { token, body: { overlapSeconds: 86_400 } })).status).toBe(200);
      }
      expect(operator.requests).toEqual([]);
      const later = { ...systemClock(), now: () => Date.now() + 19 * HOUR };
      await using relay = await startRelay(config, folder, {
        ...later,
        sleep: (until, signal) => systemClock().sleep(until - 19 * HOUR, signal),
      });
      await operator.waitFor(1, 30_000);
      expect(read(operator.requests[0] as Received)).toMatchObject({
        type: "relay:secret.expiring",
        data: { subscriptionId: id, keyId: "key_1" },
      });
      expect(await ready(relay)).toHaveLength(1);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });

  it("follows the config: another URL takes the place of the first, and what people made there stays", async () => {
    const folder = await mkdtemp(join(tmpdir(), "relay-told-"));
    try {
      await using operator = await startReceiver();
      const storage = () => ({ storage: sqlite() });
      {
        await using relay = await startRelay(told(operator, storage()), folder);
        await ready(relay);
        const body = { url: operator.url("/own"), events: ["relay:delivery.failed"] };
        expect((await relay.call("POST", `${OPERATOR}/webhooks`, { body })).status).toBe(201);
      }
      const notify = { to: [{ url: operator.url("/other"), events: ["relay:breaker.*"] }] };
      await using relay = await startRelay(told(operator, { ...storage(), notify }), folder);
      await eventually("the targets are as wanted", async () => {
        const { json } = await relay.call("GET", `${OPERATOR}/webhooks`);
        const paths = (json.data as readonly { url: string }[]).map(({ url }) => new URL(url).pathname);
        return paths.toSorted().join() === "/other,/own";
      });
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });

  it("may be a mailbox: the mail waits for its server, and goes over STARTTLS", async () => {
    await using smtp = await startSmtp({ login: { user: "relay", password: "s3cret" } });
    await using customer = await startReceiver({ otherwise: 500 });
    const folder = await mkdtemp(join(tmpdir(), "relay-told-"));
    try {
      await writeFile(join(folder, "ca.pem"), customer.ca);
      await writeFile(join(folder, "smtp-password"), "s3cret\n");
      const mail = toMail({
        ...{ name: "ops", server: `smtp://localhost:${smtp.port}`, from: "relay@example.org", to: ["*@example.com"] },
        ...{ user: "relay", password: secretFrom({ file: "smtp-password" }), tls: { caFile: "ca.pem" } },
      });
      const notify = { to: [{ url: "mail://ops/alice@example.com", events: ["relay:subscription.failing"] }] };
      smtp.answers = { greeting: "421 4.3.2 busy" };
      await using relay = await startRelay(told(customer, { transports: [https(), mail], notify }), folder);
      const [target] = await ready(relay);
      expect(target?.url).toBe("mail://ops/alice@example.com");
      const reader = await relay.token({ access: "read" });
      for (const path of [`${OPERATOR}/webhooks`, `${OPERATOR}/webhooks/${target?.id}`]) {
        const { status, text } = await relay.call("GET", path, { token: reader });
        expect([status, text]).toEqual([200, expect.stringMatching(/"url":"mail:\/\/ops\/sealed-[0-9a-f]{16}"/)]);
        expect(text).not.toContain("alice");
      }
      const { id } = await relay.subscribe(customer.url(), EVENTS);
      await publish(relay);
      const readyz = async () => (await relay.call("GET", "/readyz", { token: null })).text;
      await eventually(
        "the mail server is away",
        async () => (await readyz()).includes('"transport:mail:ops":{"ready":false'),
        30_000,
      );
      smtp.answers = {};
      const [arrived] = await smtp.waitFor(1);
      expect(arrived).toMatchObject({ to: "alice@example.com", secure: true, user: "relay" });
      expect(arrived?.headers["subject"]).toBe("relay:subscription.failing key_1 127.0.0.1:" + customer.port);
      expect(JSON.parse(arrived?.attached.toString() ?? "")).toMatchObject({ data: { subscriptionId: id } });
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });
});
