/** Streams what happens on a key as server-sent events over `fetch`, for as long as the token is valid. */
import type { Auth, Principal } from "../../ports/auth.ts";
import type { Clock } from "../../ports/clock.ts";
import type { Call } from "../http/call.ts";
import { owns } from "../http/checks.ts";
import { type AnyOperation, operation } from "../http/operation.ts";
import { streamQuery } from "./schemas.ts";
import { createStreamPlaces } from "./stream-places.ts";

/** One message. `data` becomes one line of JSON. */
export interface FeedLine {
  readonly event: "event" | "attempt" | "subscription" | "again";
  readonly data: Readonly<Record<string, unknown>>;
}

export interface Feed {
  /**
   * Reports what happens on a key from now on. Returns a function that ends it.
   * @param since epoch ms: begins with `again` when something may have happened from then to now
   */
  listen(keyId: string, tell: (message: FeedLine) => void, since?: number): () => void;
}

/** A comment this often keeps proxies from closing the connection, and finds sessions that were ended. */
const BEAT_MS = 15_000;
/** A client that reads too slowly is disconnected. It comes back and reads the lists. */
const MAX_UNREAD = 262_144;
export function liveFeedOperations(deps: {
  readonly feed?: Feed | undefined;
  readonly auth: Auth;
  readonly clock: Clock;
}): readonly AnyOperation[] {
  const { feed, auth, clock } = deps;
  if (feed === undefined) return [];
  const places = createStreamPlaces();

  /** Whether the token has not ended, and its owner still has the key. */
  async function stillValid(call: Call, principal: Principal, keyId: string): Promise<boolean> {
    if (clock.now() >= principal.expiresAt) return false;
    const found = await auth.authenticate(call);
    return !("refused" in found) && owns(found, keyId);
  }

  /** @param signal aborts when the client goes away or the server drains */
  async function beat(call: Call, principal: Principal, keyId: string, signal: AbortSignal): Promise<void> {
    const { res } = call;
    let waiting = false;
    res.on("drain", () => (waiting = false));
    while (!signal.aborted) {
      await clock.sleep(Math.min(clock.now() + BEAT_MS, principal.expiresAt), signal);
      if (!(await stillValid(call, principal, keyId))) return;
      // What waited at the last beat waits yet: the client reads no more, and would keep its place for ever.
      if (waiting && res.writableLength > 0) return void res.destroy();
      res.write(": beat\n\n");
      waiting = res.writableNeedDrain;
    }
  }

  return [
    operation({
      method: "GET",
      path: "/api-keys/{keyId}/stream",
      summary: "What happens on a key, as it happens, as server-sent events",
      tag: "Figures",
      portal: true,
      query: streamQuery,
      reply: { status: 200, type: "text/event-stream" },
      problems: ["PROVIDER_BACKPRESSURE"],
      handle({ keyId, principal, query }) {
        return {
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
              await beat(call, principal, keyId, AbortSignal.any([signal, draining.signal]));
            } catch {
              // The client went away, the server drains, or the token could not be judged: either way it is over.
            } finally {
              leave();
              end();
              socket?.off("draining", drain);
              if (!signal.aborted) res.end();
            }
          },
        };
      },
    }),
  ];
}
