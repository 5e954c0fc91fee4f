/** Streams what happens on a key as server-sent events over `fetch`, for as long as the token is valid. */
import { z } from "zod";
import { Tally } from "../../lib/tally.ts";
import { Problem } from "../../model/problem.ts";
import type { Principal } from "../../ports/auth.ts";
import type { Call } from "../http/call.ts";
import { type AnyOperation, operationsOf } from "../http/operation.ts";
import { owns } from "../http/stations.ts";
import type { FeedLine, ResourceDeps } from "./deps.ts";
import { moment, note } from "./fields.ts";

const operation = operationsOf("Figures");

/** A comment this often keeps proxies from closing the connection, and finds sessions that were ended. */
const BEAT_MS = 15_000;
/** A client that reads too slowly is disconnected. It comes back and reads the lists. */
const MAX_UNREAD = 262_144;

const streamQuery = z.strictObject({
  since: note(
    moment.optional(),
    "A `meta.timestamp`: the first message is `again` where something may have happened on the key since then.",
  ),
});

export function liveFeedOperations(deps: ResourceDeps): readonly AnyOperation[] {
  const { feed } = deps;
  const places = createStreamPlaces();
  return [
    operation("GET /api-keys/{keyId}/stream", {
      id: "streamApiKey",
      summary: "What happens on a key, as it happens, as server-sent events",
      portal: true,
      query: streamQuery,
      reply: { status: 200, type: "text/event-stream" },
      problems: ["PROVIDER_BACKPRESSURE"],
      handle: ({ keyId, principal, query }) => ({
        async stream(call, headers) {
          const { res, signal } = call;
          const leave = places.take(principal);
          res.writeHead(200, {
            ...headers,
            "Content-Type": "text/event-stream",
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "X-Accel-Buffering": "no",
          });
          if (call.method === "HEAD") return void (leave(), res.end());
          const tell = ({ event, data }: FeedLine): void => {
            res.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
            if (res.writableLength > MAX_UNREAD) res.destroy();
          };
          const end = feed.listen(keyId, tell, query.since);
          const draining = new AbortController();
          const { socket } = res;
          const drain = (): void => draining.abort();
          socket?.once("draining", drain);
          try {
            res.write(": hello\n\n");
            await beat(deps, call, principal, keyId, AbortSignal.any([signal, draining.signal]));
          } catch {
            // The client went away, the server drains, or the token could not be judged: either way it is over.
          } finally {
            leave();
            end();
            socket?.off("draining", drain);
            if (!signal.aborted) res.end();
          }
        },
      }),
    }),
  ];
}

/**
 * Keeps the stream alive until the token has ended, or its owner has lost the key.
 * @param signal aborts when the client goes away or the server drains
 */
async function beat(
  { auth, clock }: ResourceDeps,
  call: Call,
  principal: Principal,
  keyId: string,
  signal: AbortSignal,
): Promise<void> {
  const { res } = call;
  let waiting = false;
  res.on("drain", () => (waiting = false));
  while (!signal.aborted) {
    await clock.sleep(Math.min(clock.now() + BEAT_MS, principal.expiresAt), signal);
    if (clock.now() >= principal.expiresAt) return;
    const found = await auth.authenticate(call);
    if ("refused" in found || !owns(found, keyId)) return;
    // The bytes of the last beat wait yet: the client reads no more, and would keep its place for ever.
    if (waiting && res.writableLength > 0) return void res.destroy();
    res.write(": beat\n\n");
    waiting = res.writableNeedDrain;
  }
}

/** Streams of one node, and of one caller on it: a page for each of a few screens, not a place for everybody. */
const MAX_STREAMS = 500;
const MAX_OF_ONE = 20;
/** Those of one key's portal links together: a customer may be given a link at each visit. */
const MAX_OF_PORTAL = 100;
/** Beyond this the rest is for operators, who come when something is wrong. */
const MAX_WITH_PORTALS = 400;
const BUSY_S = 30;

const busy = (detail: string): Problem => new Problem("PROVIDER_BACKPRESSURE", detail, { retryAfter: BUSY_S });

/** Bounds the streams of a node: in all, of one caller, of one customer, and of the holders of portal links together. */
export function createStreamPlaces() {
  let open = 0;
  const byCaller = new Tally();
  const byPortal = new Tally();
  return {
    /** Takes a place. Returns what gives it back, once. @throws Problem PROVIDER_BACKPRESSURE */
    take({ sub, keys, portal }: Pick<Principal, "sub" | "keys" | "portal">): () => void {
      // A link is of one key.
      const customer = portal === undefined ? undefined : String(keys);
      if (byCaller.of(sub) >= MAX_OF_ONE) throw busy(`You have ${MAX_OF_ONE} streams open; close one first.`);
      if (customer !== undefined && byPortal.of(customer) >= MAX_OF_PORTAL)
        throw busy(`The portal of this key has ${MAX_OF_PORTAL} streams open; close one first.`);
      if (open >= (portal === undefined ? MAX_STREAMS : MAX_WITH_PORTALS))
        throw busy("Too many streams are open; come back later.");
      const add = (by: 1 | -1): void => {
        open += by;
        byCaller.add(sub, by);
        if (customer !== undefined) byPortal.add(customer, by);
      };
      add(1);
      return () => add(-1);
    },
  };
}
