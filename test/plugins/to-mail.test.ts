/** The mail transport against an SMTP server on real sockets and real TLS, which refuses, hangs and is not there. */
import { describe, expect, it } from "vitest";
import { NOTICE_MEANINGS } from "../../core/model/notice.ts";
import type { Transport } from "../../core/ports/transport.ts";
import { toMail } from "../../plugins/transport/mail.ts";
import { writtenOf } from "../../plugins/transport/mail/message.ts";
import type { MailOptions } from "../../plugins/transport/mail/transport.ts";
import { sendTo, setUp, textOf } from "../support/bus-bench.ts";
import { describeBus } from "../support/bus-laws.ts";
import { mailBus, mailOptions } from "../support/buses/mail.ts";
import { SILENCE, startSmtp } from "../support/smtp.ts";
import { eventually } from "../support/until.ts";

describeBus(mailBus);

const TO = "mail://bus/alice@example.com";
const EVENT = {
  id: "evt_1",
  type: "relay:breaker.opened",
  keyId: "relay:operator",
  createdAt: "2026-01-01T00:00:00.000Z",
  data: { keyId: "key_1", host: "shop.example", failures: 20 },
};

const open = async (
  { port }: { readonly port: number },
  more: Partial<MailOptions> = {},
): Promise<Transport & AsyncDisposable> => {
  const transport = await setUp(toMail({ ...mailOptions(`127.0.0.1:${port}`), ...more }));
  return Object.assign(transport, { [Symbol.asyncDispose]: () => transport.dispose() });
};

describe("a mail", () => {
  it("goes over STARTTLS, with what people read, the relay's headers and the exact body", async () => {
    await using smtp = await startSmtp({ login: { user: "relay", password: "s3cret" } });
    await using transport = await open(smtp, { user: "relay", password: "s3cret" });
    const body = Buffer.from(JSON.stringify(EVENT));
    const headers = { "X-Relay-Event": EVENT.type, "webhook-id": "evt_1", Bcc: "eve@example.net" };
    const reply = await sendTo(transport, TO, { body, headers, messageId: "dlv_1_sub_0" });
    expect(textOf(reply)).toBe("200 250 2.0.0 queued as 42");
    const [mail] = await smtp.waitFor(1);
    expect(mail).toMatchObject({ from: "relay@example.org", to: "alice@example.com", secure: true, user: "relay" });
    expect(mail?.headers).toMatchObject({
      subject: "relay:breaker.opened key_1 shop.example",
      "message-id": "<dlv_1_sub_0@example.org>",
      "x-relay-event": EVENT.type,
      "webhook-id": "evt_1",
      "auto-submitted": "auto-generated",
    });
    expect(mail?.headers).not.toHaveProperty("bcc");
    expect(mail?.text.split("\r\n")).toEqual(
      expect.arrayContaining(["relay:breaker.opened", "host: shop.example", "failures: 20", "id: evt_1"]),
    );
    expect(mail?.attached).toEqual(body);
  });

  it("that is taken shows the server's words without the addresses behind it", async () => {
    await using smtp = await startSmtp();
    await using transport = await open(smtp);
    smtp.answers = {
      ".": "250 2.0.0 from MTA(smtp:[10.0.0.5]:10025): 250 2.0.0 Ok: queued as 4WzX on mx1.internal:25",
    };
    expect(textOf(await sendTo(transport, TO))).toBe(
      "200 250 2.0.0 from MTA(smtp:[…]:10025): 250 2.0.0 Ok: queued as 4WzX on …",
    );
  });

  it("goes over TLS from the first byte where the server is smtps", async () => {
    await using smtp = await startSmtp({ secure: true });
    await using transport = await open(smtp, { server: `smtps://localhost:${smtp.port}` });
    expect(textOf(await sendTo(transport, TO))).toMatch(/^200/);
    expect(smtp.mails[0]).toMatchObject({ secure: true });
  });

  it("never goes in clear to a server that offers no STARTTLS, unless the config says so", async () => {
    await using smtp = await startSmtp({ starttls: false });
    await using transport = await open(smtp);
    expect(textOf(await sendTo(transport, TO))).toBe("unavailable the connection bus is away");
    expect(transport.readiness?.()).toMatch(/^ETLS/);
    expect(smtp.mails).toEqual([]);
    await using clear = await open(smtp, { starttls: false });
    expect(textOf(await sendTo(clear, TO))).toMatch(/^200/);
    expect(smtp.mails[0]).toMatchObject({ secure: false });
  });

  it("never goes to a server whose certificate is not trusted", async () => {
    await using smtp = await startSmtp();
    await using transport = await open(smtp, { tls: {} });
    expect(await sendTo(transport, TO)).toMatchObject({ kind: "unavailable" });
    expect(smtp.mails).toEqual([]);
  });

  it("that the server refuses is an attempt, with what the server said", async () => {
    await using smtp = await startSmtp();
    await using transport = await open(smtp);
    for (const [command, answer] of [
      ["RCPT TO", "550 5.1.1 no such user"],
      ["RCPT TO", "451 4.7.1 greylisted"],
      ["MAIL FROM", "553 5.1.8 not you"],
      [".", "554 5.7.1 spam"],
    ] as const) {
      smtp.answers = { [command]: answer };
      const reply = await sendTo(transport, TO);
      expect(reply, answer).toMatchObject({ kind: "error", error: "protocol" });
      expect(textOf(reply)).toContain(answer);
      expect(transport.readiness?.()).toBeUndefined();
    }
  });

  it("waits, uncounted, for a server that is not there, is busy, or refuses the login", async () => {
    const smtp = await startSmtp({ login: { user: "relay", password: "s3cret" } });
    await using wrong = await open(smtp, { user: "relay", password: "other" });
    expect(textOf(await sendTo(wrong, TO))).toBe("unavailable the connection bus is away");
    expect(wrong.readiness?.()).toBe("EAUTH 535");
    await using right = await open(smtp, { user: "relay", password: "s3cret" });
    smtp.answers = { greeting: "421 4.3.2 busy" };
    expect(await sendTo(right, TO)).toMatchObject({ kind: "unavailable" });
    smtp.answers = {};
    expect(textOf(await sendTo(right, TO))).toMatch(/^200/);
    expect(right.readiness?.()).toBeUndefined();
    await smtp[Symbol.asyncDispose]();
    expect(await sendTo(right, TO)).toMatchObject({ kind: "unavailable" });
  });

  it("whose server says nothing is a timeout, and leaves no connection behind", async () => {
    await using smtp = await startSmtp();
    await using transport = await open(smtp);
    smtp.answers = { DATA: SILENCE };
    expect(textOf(await sendTo(transport, TO, { timeoutMs: 200 }))).toBe("error no confirmation within 200 ms");
    await eventually("the connection is closed", () => smtp.open() === 0, 30_000);
  });

  it("goes to no address that the config does not allow", async () => {
    await using smtp = await startSmtp();
    await using transport = await open(smtp, { to: ["alice@example.com", "*@ops.example"] });
    for (const right of ["alice@example.com", "Alice@Example.com", "Anyone@ops.example"])
      expect(await transport.problems?.(`mail://bus/${right}`), right).toBeUndefined();
    for (const wrong of ["bob@example.com", "x@sub.ops.example", "x@opsXexample"]) {
      expect(await transport.problems?.(`mail://bus/${wrong}`), wrong).toMatch(/^must be mail:\/\/bus\//);
      expect(await sendTo(transport, `mail://bus/${wrong}`)).toMatchObject({ kind: "error" });
    }
    expect(smtp.mails).toEqual([]);
  });
});

describe("what people read", () => {
  const written = (body: unknown) => writtenOf({ body: Buffer.from(JSON.stringify(body)), headers: {} });

  it("is what a transform has made, where it made a text", () => {
    expect(written({ subject: "Paid", text: "250 EUR" })).toEqual({ subject: "Paid", text: "250 EUR" });
  });

  it("says what a notice means, and does not name the operator's key as the one that it is about", () => {
    const { subject, text } = written({ ...EVENT, type: "relay:pending.high", data: { pending: 60, bound: 40 } });
    expect(subject).toBe("relay:pending.high the whole relay");
    expect(text.split("\n")).toEqual(expect.arrayContaining([NOTICE_MEANINGS["relay:pending.high"], "pending: 60"]));
    expect(written(EVENT).text).toContain(NOTICE_MEANINGS["relay:breaker.opened"]);
    expect(written({ ...EVENT, type: "constructor" }).text).toMatch(/^constructor\n\nkeyId/);
    expect(written({ ...EVENT, type: "relay:ping", data: {} }).subject).toBe("relay:ping relay:operator");
  });

  it("has a subject of one line, whatever an event is named", () => {
    expect(written({ ...EVENT, data: { host: "a\r\nBcc: eve@example.net" } }).subject).not.toMatch(/[\r\n]/);
    expect(written({ text: "x", subject: "s".repeat(1_000) }).subject).toHaveLength(200);
  });
});

it("toMail keeps the password among the secrets", () => {
  const options = { ...mailOptions("127.0.0.1:25"), user: "relay", password: "p" };
  expect(toMail(options).secrets).toEqual({ password: "p" });
});
