// The relay takes and answers what docs/order.md shows.
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { MOST_ORDERED, SEQUENCES_EACH } from "../../core/model/delivery.ts";
import { startRelay } from "../support/relay.ts";

const page = readFileSync(new URL("../../docs/order.md", import.meta.url), "utf8");

describe("the guide to order", () => {
  it("names the bounds", () => {
    expect(page).toContain(`share ${SEQUENCES_EACH} sequences`);
    expect(page).toContain(`${MOST_ORDERED} ordered subscriptions for each API key`);
  });

  it("shows requests as the relay takes them, with the fields of the answers", async () => {
    await using relay = await startRelay();
    const hook = { url: "https://hooks.example.com/relay", events: ["deposit:paid"] };
    const made = await relay.call("POST", "/api-keys/key_1/webhooks", { body: hook });
    const requests = [...page.matchAll(/^```http\n(\w+) (\S+)\n(?:(\{.*\})\n)?(?:→ (\d+) \{(.*)\}\n)?```$/gm)];
    expect(requests.map(([, method]) => method)).toEqual(["PATCH", "GET", "POST"]);
    for (const [, method = "", path = "", body, status, fields] of requests) {
      const target = path.replace("{subscriptionId}", made.json.data.id as string);
      const got = await relay.call(method, target, { body: body && (JSON.parse(body) as unknown) });
      expect(got.status, got.text).toBe(Number(status ?? 200));
      const names = fields?.split(", ").map((name) => JSON.parse(name) as string);
      if (names !== undefined) expect(Object.keys(got.json.data as object)).toEqual(names);
    }
  });
});
