// A provider that sends until it hears 2xx, and a relay that is killed -9 in mid-stream: each webhook is stored, and once.
import { request } from "undici";
import { expect, it } from "vitest";
import { testFolder } from "../../support/folder.ts";
import { expectNothingLost } from "../../support/ledger.ts";
import { hexOf, SECRET } from "../../support/webhooks.ts";

const TOTAL = 4_000;
const SENDERS = 32;

/** Sends `{"id":n}` for each n, again and again until it is answered 2xx, wherever the relay is now. */
function provider() {
  const open = new Set(Array.from({ length: TOTAL }, (_, i) => i));
  const waiting = [...open];
  let url: string | undefined;
  let answered = 0;
  let repeats = 0;

  async function send(n: number, to: string): Promise<boolean> {
    // The data is the number itself, as the ledger wants it; its id comes in a header, as GitHub's does.
    const body = String(n);
    const headers = { "content-type": "application/json", "x-signature": hexOf(SECRET, body), "x-delivery": `d-${n}` };
    const reply = await request(`${to}/in/shop`, { method: "POST", headers, body });
    await reply.body.dump();
    if (reply.headers["relay-event-id"] === undefined) repeats++;
    return reply.statusCode === 200;
  }

  async function work(to: string): Promise<void> {
    while (url === to) {
      const n = waiting.shift();
      if (n === undefined) return;
      const heard = await send(n, to).catch(() => false);
      answered++;
      if (heard) open.delete(n);
      else waiting.push(n);
    }
  }

  return {
    left(at: string | undefined): number {
      if (at !== url) {
        url = at;
        if (at !== undefined) for (let i = 0; i < SENDERS; i++) void work(at);
      }
      return open.size;
    },
    sent: () => ({ answered, repeats }),
  };
}

it("a relay that takes webhooks loses none and stores none twice when it is killed in mid-stream", async () => {
  const upstream = provider();
  await expectNothingLost({
    folder: testFolder(),
    source: `webhooks([{ path: "/in/shop", keyId: "key_1", type: "order.paid", id: "{header.x-delivery}",
      verify: hmac({ secret: ${JSON.stringify(SECRET)}, header: "x-signature" }) }])`,
    imports: ["webhooks", "hmac"],
    total: TOTAL,
    kills: 3,
    left: async (relay) => upstream.left(relay?.url),
  });
  // Some were under way at each kill, and were sent again.
  expect(upstream.sent().answered).toBeGreaterThan(TOTAL);
});
