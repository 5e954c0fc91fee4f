// Headers that a publisher gives an event: checked, stored with it, and sent with each of its deliveries.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { RelayEvent } from "../../core/model/event.ts";
import { EVENT } from "../../core/model/schema.ts";
import { MOST_EVENT_HEADERS, readEventHeaders } from "../../core/model/header-names.ts";
import { replied, testPath } from "../support/path.ts";
import { refusal } from "../support/refusal.ts";

const paths = async (work: Promise<unknown>) => (await refusal(work)).paths;
const lowerOf = (headers: Readonly<Record<string, string>>) =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));

describe("the headers of an event", () => {
  it("are sent with each attempt and each replay, and shown with the event", async () => {
    await using test = await testPath({ retry: { attempts: 2 } });
    test.answers = [replied(500), replied(500), replied(200)];
    await test.open();
    const id = await test.publish("deposit:paid", { headers: { "X-Tenant": "t-1", "X-Empty": "" } });
    await test.whenSent(1);
    await test.clock.advance(60_000);
    await test.answered(2);
    expect(await test.parts.replay.event("key_1", id)).toBe(1);
    await test.answered(3);
    for (const { headers } of test.sent) expect(headers).toMatchObject({ "x-tenant": "t-1", "x-empty": "" });
    expect((await test.parts.history.event("key_1", id))?.event.headers).toEqual({ "x-empty": "", "x-tenant": "t-1" });
  });

  it("stand behind those of the subscription, and never beside the relay's own", async () => {
    await using test = await testPath();
    const fields = {
      url: "https://receiver.example/hook",
      events: ["*"],
      headers: { "X-Tenant": "of the subscription" },
    };
    await test.parts.subscriptions.create("key_1", fields, { sub: "tester" });
    await test.start();
    await test.publish("deposit:paid", { headers: { "x-TENANT": "of the event", "x-other": "1" } });
    await test.answered(1);
    const names = Object.keys(test.sent[0]?.headers ?? {}).map((name) => name.toLowerCase());
    expect(names.length).toBe(new Set(names).size);
    expect(lowerOf(test.sent[0]?.headers ?? {})).toMatchObject({ "x-tenant": "of the subscription", "x-other": "1" });
  });

  it.each([
    ..."host connection keep-alive transfer-encoding content-length content-type te trailer upgrade expect cookie".split(
      " ",
    ),
    ..."user-agent traceparent accept accept-encoding authorization proxy-authorization http2-settings".split(" "),
    ..."webhook-id webhook-signature X-Relay-Webhook-Signature x-relay-event Content-Digest".split(" "),
    ...["", "a b", "a:b", "a\r\nb", "ü", "x".repeat(129)],
  ])("are none that another part of the request sets: %j", async (name) => {
    await using test = await testPath();
    const refused = test.publish("a:b", { headers: { [name]: "x", "x-right": "y" } });
    expect(await paths(refused)).toEqual([`headers.${name.slice(0, 128)}`]);
  });

  it.each<[string, unknown]>([
    ["text", "x"],
    ["a list", []],
    ["null", null],
    ["too many", Object.fromEntries(Array.from({ length: MOST_EVENT_HEADERS + 1 }, (_, n) => [`x-${n}`, ""]))],
    ["too long", { a: "x".repeat(2_048), b: "y".repeat(2_047) }],
  ])("are refused when they are %s", async (_what, headers) => {
    await using test = await testPath();
    expect(await paths(test.publish("a:b", { headers }))).toEqual(["headers"]);
  });

  it.each<[string, unknown]>([
    ["a number", 1],
    ["null", null],
    ["two lines", "a\r\nx-relay-event: b"],
    ["a tab", "a\tb"],
    ["other letters", "Zürich"],
    ["a blank at its end", "a "],
  ])("have no value that is %s", async (_what, value) => {
    await using test = await testPath();
    expect(await paths(test.publish("a:b", { headers: { "x-a": value } }))).toEqual(["headers.x-a"]);
  });

  it("are given once each, in whatever case", async () => {
    await using test = await testPath();
    expect(await paths(test.publish("a:b", { headers: { "x-a": "1", "X-A": "1" } }))).toEqual(["headers.X-A"]);
  });

  it("belong to what an id stands for, in whatever order and case they are", async () => {
    await using test = await testPath();
    const id = "own-1";
    await test.publish("a:b", { id, headers: { "x-a": "1", "x-b": "2" } });
    expect(await test.publish("a:b", { id, headers: { "X-B": "2", "x-a": "1" } })).toBe(id);
    for (const headers of [{ "x-a": "1" }, undefined])
      expect((await refusal(test.publish("a:b", { id, headers }))).code).toBe("IDEMPOTENCY_MISMATCH");
  });

  it("leave the stored bytes of an event without them as they were", () => {
    const event: RelayEvent = {
      ...{ id: "e", type: "a:b", keyId: "k", ordinal: "01", createdAt: 0, acceptedAt: 0, subscriptionIds: [] },
      body: '{"id":"e","type":"a:b","keyId":"k","createdAt":"1970-01-01T00:00:00.000Z","data":1}',
    };
    const stored = (one: RelayEvent): string => {
      const change = EVENT.put({ keyId: "k", ordinal: "01" }, one);
      return change.op === "put" ? change.value : "";
    };
    expect(stored(event)).not.toContain("headers");
    for (const one of [event, { ...event, headers: { "x-a": "1" } }])
      expect(EVENT.read(stored(one), EVENT.key({ keyId: "k", ordinal: "01" }))).toEqual(one);
  });

  it("are read or refused, whatever they are", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (given) => {
        const read = readEventHeaders(given);
        const names = Array.isArray(read) ? [] : Object.keys(read);
        expect(names).toEqual(names.map((name) => name.toLowerCase()).toSorted());
      }),
    );
  });
});
