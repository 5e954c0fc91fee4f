// Views of a key on which something happens all the time.
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { startReceiver, type Receiver } from "../support/receiver.ts";
import { startRelay, type TestRelay } from "../support/relay.ts";
import { useLoggedIn } from "./browser.ts";

let relay: TestRelay;
let receiver: Receiver;
const browser = useLoggedIn(async (kept) => {
  receiver = kept.use(await startReceiver());
  relay = kept.use(await startRelay());
  return relay;
});

let keys = 0;
/** An event whose deliveries are tried again and again while `during` runs: the stream tells of each attempt. */
async function whileTried(during: (keyId: string, eventId: string) => Promise<void>): Promise<void> {
  const keyId = `key_${++keys}`;
  const body = { url: receiver.url("/"), events: ["*"] };
  expect((await relay.call("POST", `/api-keys/${keyId}/webhooks`, { body })).status).toBe(201);
  const { id } = (await relay.publish({ type: "deposit:paid", keyId, data: 1 })).json.data;
  let over = false;
  const trying = (async () => {
    for (; !over; await pause(300))
      await relay.call("POST", `/api-keys/${keyId}/events/${id}/replay`, { body: { force: true } });
  })();
  try {
    await during(keyId, id);
  } finally {
    over = true;
    await trying;
  }
}

describe.skipIf(browser.missing !== undefined)(`a busy key (${browser.missing ?? "in Chromium"})`, () => {
  it("is shown, however long an answer takes", () =>
    whileTried(async (keyId, id) => {
      await using screen = await browser.open();
      const { page } = screen;
      let answers = 0;
      await page.route(`**/api-keys/${keyId}/events/${id}`, async (route) => {
        const response = await route.fetch();
        await pause(3_000);
        // The page may have given it up.
        await route.fulfill({ response }).catch(() => undefined);
        answers++;
      });
      await page.goto(`${relay.url}/developers#/k/${keyId}/events/${id}`);
      await page.getByText("live", { exact: true }).waitFor();
      await page.getByRole("heading", { level: 1, name: "deposit:paid" }).waitFor();
      // What came meanwhile is read as well.
      await expect.poll(() => answers).toBeGreaterThan(1);
    }));

  it("is asked for no sooner than the relay has said, whatever happens meanwhile", () =>
    whileTried(async (keyId, id) => {
      await using screen = await browser.open();
      const { page } = screen;
      const at: number[] = [];
      await page.route(`**/api-keys/${keyId}/events/${id}`, async (route) => {
        at.push(Date.now());
        const json = { code: "BURST_EXCEEDED", detail: "Too many requests." };
        if (at.length === 1) await route.fulfill({ status: 429, headers: { "retry-after": "5" }, json });
        else await route.continue();
      });
      await page.goto(`${relay.url}/developers#/k/${keyId}/events/${id}`);
      await page.getByRole("heading", { level: 1, name: "deposit:paid" }).waitFor();
      const [first = 0, second = 0] = at;
      expect(second - first).toBeGreaterThanOrEqual(4_900);
    }));
});
