// Publishes, and keeps a ledger of the requests and their answers.
import { Agent, request } from "undici";
import type { Erasures } from "./erasures.ts";
import type { Random } from "./random.ts";
import { sleep } from "./process.ts";
import type { Kind, Publication, Publications, Published } from "./publications.ts";
import { KEYS, type Relay } from "./relay.ts";

export interface Publisher {
  /** From now on it publishes, each writer one request after the other. */
  begin(): void;
  /** Events acknowledged so far. */
  acknowledged(): number;
  /** Answers other than 202, by status; "none" where there was none. */
  readonly refused: ReadonlyMap<string, number>;
  /** Answers that no honest relay gives, a line each. */
  readonly wrong: readonly string[];
  /** Publishes one event of this kind, again and again until it is acknowledged. @returns it, or undefined when it never was */
  one(kind: Kind): Promise<Published | undefined>;
  /** No new events; what may be asked for again is asked for until it is acknowledged. */
  finish(): Promise<void>;
}

/** Longest that one event is asked for. */
const PATIENCE_MS = 60_000;
/** Refusals that say that the request is wrong, or stands for another one. */
const NEVER = new Set([400, 404, 409, 413, 415, 500]);

export interface PublisherOptions {
  readonly relays: readonly Relay[];
  readonly random: Random;
  readonly publications: Publications;
  readonly writers: number;
  readonly erasures: Erasures;
  /** Rest after each request, ms. */
  readonly restMs: number;
}

export function startPublisher(options: PublisherOptions): Publisher {
  const { relays, random, publications, erasures, writers, restMs } = options;
  const refused = new Map<string, number>();
  const wrong: string[] = [];
  const agent = new Agent({
    connect: { timeout: 1_000 },
    headersTimeout: 6_000,
    bodyTimeout: 6_000,
    connections: writers + 2,
  });
  let acknowledged = 0;
  let ending = false;

  const count = (what: string): void => void refused.set(what, (refused.get(what) ?? 0) + 1);

  /** @returns whether it was acknowledged */
  async function ask({ events, contentType, body, key }: Publication): Promise<boolean> {
    const relay = random.pick(relays);
    if (!relay.up()) {
      await sleep(20);
      return false;
    }
    const before = events.map(({ open }) => open);
    for (const event of events) {
      event.open = true;
      event.asks++;
    }
    try {
      const answer = await request(`${relay.url}/events`, {
        method: "POST",
        headers: {
          authorization: `Bearer ${KEYS.publishToken}`,
          "content-type": contentType,
          ...(key === undefined ? {} : { "idempotency-key": key }),
        },
        body,
        dispatcher: agent,
      });
      const text = await answer.body.text();
      if (answer.statusCode === 202) {
        accepted(events, text);
        return true;
      }
      count(String(answer.statusCode));
      // The id of an erased event stays taken: nothing more is to be had for it.
      if (answer.statusCode === 409 && text.includes("has been erased") && events.some(mayBeGone)) return true;
      if (NEVER.has(answer.statusCode))
        wrong.push(`${events[0]?.ref} was answered ${answer.statusCode}: ${text.slice(0, 300)}`);
      // By that answer it must be so; but an earlier asking may have left it open.
      if (/nothing was (stored|accepted)/i.test(text))
        for (const [i, event] of events.entries()) event.open = before[i] === true;
    } catch {
      count("none");
    }
    return false;
  }

  const mayBeGone = ({ keyId, accepted: ids }: Published): boolean =>
    [...ids].some((id) => erasures.mayBeGone(keyId, id));

  function accepted(events: readonly Published[], text: string): void {
    const { data } = JSON.parse(text) as { readonly data: { readonly id: string }[] | { readonly id: string } };
    const answers = Array.isArray(data) ? data : [data];
    if (answers.length !== events.length)
      wrong.push(`${events[0]?.ref}: ${answers.length} answers to ${events.length}`);
    for (const [i, event] of events.entries()) {
      const id = answers[i]?.id ?? "";
      if (event.id !== undefined && event.id !== id) wrong.push(`${event.ref} was named ${id} in place of ${event.id}`);
      if (event.accepted.size > 0 && !event.accepted.has(id)) wrong.push(`${event.ref} was given a second id, ${id}`);
      if (event.accepted.size === 0) acknowledged++;
      event.accepted.add(id);
      event.acceptedAt ??= performance.now();
    }
  }

  /** Until it is acknowledged: only what cannot make a second event is asked for again. */
  async function insist(publication: Publication): Promise<boolean> {
    let done = await ask(publication);
    const again = publications.again(publication);
    for (const until = Date.now() + PATIENCE_MS; !done && again !== undefined && Date.now() < until;) {
      await sleep(50);
      done = await ask(again);
    }
    return done;
  }

  async function write(): Promise<void> {
    while (!ending) {
      const publication = publications.any();
      const done = await insist(publication);
      // A publisher that did not hear the answer asks once more.
      const again = done && random.chance(0.05) ? publications.again(publication) : undefined;
      if (again !== undefined) await ask(again);
      if (restMs > 0) await sleep(restMs);
    }
  }

  let writing: Promise<unknown> = Promise.resolve();
  return {
    begin: () => void (writing = Promise.all(Array.from({ length: writers }, write))),
    refused,
    wrong,
    acknowledged: () => acknowledged,
    async one(kind) {
      const publication = publications.one(kind);
      return (await insist(publication)) ? publication.events[0] : undefined;
    },
    async finish() {
      ending = true;
      await writing;
      await agent.destroy();
    },
  };
}
