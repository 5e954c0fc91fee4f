// Notices of a relay, as an operator runs it: a chat hears once of a kind, also when the process is killed.
import { describe, expect, it } from "vitest";
import { startChild } from "../support/child-relay.ts";
import { testFolder } from "../support/folder.ts";
import { startReceiver } from "../support/receiver.ts";
import { eventually } from "../support/until.ts";

describe("a chat's webhook", () => {
  it("hears once in its own words, and no more after a SIGKILL", async () => {
    const folder = testFolder();
    await using chat = await startReceiver();
    await using customer = await startReceiver({ otherwise: 500 });
    const config = `
      transforms: { chat: ({ type, data }: any) => ({ text: type + " " + data.keyId }) },
      notify: { to: [{ url: "${chat.url()}", transform: "chat" }] },
      health: { breakerAfter: 2, breakerPauseMs: 20, breakerMaxPauseMs: 20 }, retry: { attempts: 1 },`;
    // A kill may come before the answer of the chat is stored: then the same event comes again, with the same id.
    const heard = (): readonly string[] => {
      const byId = new Map(chat.requests.map(({ headers, body }) => [headers["webhook-id"], body.toString()]));
      return [...byId.values()].map((body) => (JSON.parse(body) as { text: string }).text).toSorted();
    };
    const both = ["relay:breaker.opened key_1", "relay:subscription.failing key_1"];

    for (const life of ["first", "second"] as const) {
      const relay = await startChild(folder, { config });
      try {
        if (life === "first") {
          await eventually(
            "the target is a subscription",
            async () => (await relay.call("GET", "/api-keys/relay:operator/webhooks")).json.data.length === 1,
            60_000,
          );
          const body = { url: customer.url(), events: ["*"] };
          expect((await relay.call("POST", "/api-keys/key_1/webhooks", body)).status).toBe(201);
        }
        const before = customer.requests.length;
        for (let i = 0; i < 12; i++) await relay.publish({ type: "deposit:paid", keyId: "key_1", data: {} });
        await customer.waitFor(before + 12, 60_000);
        await eventually("both have arrived", () => heard().length >= 2, 60_000);
        await relay.kill();
      } finally {
        await relay[Symbol.asyncDispose]();
      }
      expect(heard(), life).toEqual(both);
    }
  });
});
