// A publisher with a ledger: what it asked for, and what it was told.
import { Agent, request } from "undici";
import type { Random } from "./random.ts";
import { sleep } from "./process.ts";
import { KEYS, type Relay } from "./relay.ts";

export interface Published {
  readonly ref: string;
  readonly data: string;
  /** Ids that a 202 named. */
  readonly accepted: Set<string>;
  /** It may have been stored without an answer. */
  open: boolean;
}

export interface Publisher {
  /** By ref, which stands in the data. */
  readonly ledger: ReadonlyMap<string, Published>;
  /** Events acknowledged so far. */
  acknowledged(): number;
  /** Answers other than 202, by status; "none" where there was none. */
  readonly refused: ReadonlyMap<string, number>;
  /** No new events; what has an id of its own is asked for until it is acknowledged. */
  finish(): Promise<void>;
}

const TYPES = ["t:0", "t:1"];
const ODD = ["1.0", "12345678901234567890", '"\\u0041"', "[1, 2]", '{"a":1,"a":2}', '"é\u{1f600}"', "null"];
export const KEY = "key:torture";
/** Longest that one event is asked for. */
const PATIENCE_MS = 60_000;

export interface PublisherOptions {
  readonly relays: readonly Relay[];
  readonly random: Random;
  readonly writers: number;
  /** Rest after each request, ms. */
  readonly restMs: number;
  readonly mostAtOnce: number;
}

export function startPublisher({ relays, random, writers, restMs, mostAtOnce }: PublisherOptions): Publisher {
  const ledger = new Map<string, Published>();
  const refused = new Map<string, number>();
  const agent = new Agent({
    connect: { timeout: 1_000 },
    headersTimeout: 6_000,
    bodyTimeout: 6_000,
    connections: writers,
  });
  let acknowledged = 0;
  let refs = 0;
  let ending = false;

  function make(): { readonly event: Published; readonly text: string; readonly own: boolean } {
    const ref = `r${refs++}`;
    const data = `{"ref":"${ref}","x":${random.pick(ODD)},"pad":"${"x".repeat(random.int(0, 600))}"}`;
    const own = random.chance(0.6);
    const event: Published = { ref, data, accepted: new Set(), open: false };
    ledger.set(ref, event);
    const id = own ? `"id":"o:${ref}",` : "";
    return { event, own, text: `{${id}"type":"${random.pick(TYPES)}","keyId":"${KEY}","data":${data}}` };
  }

  /** @returns whether it was acknowledged */
  async function ask(made: readonly ReturnType<typeof make>[]): Promise<boolean> {
    const relay = random.pick(relays);
    if (!relay.up()) {
      await sleep(20);
      return false;
    }
    for (const { event } of made) event.open = true;
    try {
      const answer = await request(`${relay.url}/events`, {
        method: "POST",
        headers: { authorization: `Bearer ${KEYS.publishToken}`, "content-type": "application/x-ndjson" },
        body: `${made.map(({ text }) => text).join("\n")}\n`,
        dispatcher: agent,
      });
      const text = await answer.body.text();
      if (answer.statusCode === 202) {
        const { data } = JSON.parse(text) as { readonly data: { readonly id: string }[] | { readonly id: string } };
        for (const [i, { id }] of (Array.isArray(data) ? data : [data]).entries()) made[i]?.event.accepted.add(id);
        acknowledged += made.length;
        return true;
      }
      count(String(answer.statusCode));
      // Told so, it must be so; but an earlier asking may have left it open.
      if (/nothing was stored/i.test(text)) return false;
    } catch {
      count("none");
    }
    return false;
  }

  const count = (what: string): void => void refused.set(what, (refused.get(what) ?? 0) + 1);

  async function write(): Promise<void> {
    while (!ending) {
      const made = Array.from({ length: random.int(1, mostAtOnce) }, make);
      let done = await ask(made);
      const until = Date.now() + PATIENCE_MS;
      const own = made.filter((one) => one.own);
      // Only what has an id of its own may be asked for again: once more, and it is the same event.
      while (!done && own.length > 0 && Date.now() < until) {
        await sleep(50);
        done = await ask(own);
      }
      if (restMs > 0) await sleep(restMs);
    }
  }

  const writing = Promise.all(Array.from({ length: writers }, write));
  return {
    ledger,
    refused,
    acknowledged: () => acknowledged,
    async finish() {
      ending = true;
      await writing;
      await agent.destroy();
    },
  };
}
