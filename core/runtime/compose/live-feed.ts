/**
 * Composes the live feed: what other threads of this process do reaches it over a broadcast channel, while somebody
 * listens.
 */
import { BroadcastChannel } from "node:worker_threads";
import { createFeed, type FeedMessage, type LiveFeed } from "../../history/live-feed.ts";
import type { Clock } from "../../ports/clock.ts";
import type { ThreadPlace } from "../threads/node-thread.ts";

export function composeFeed(
  clock: Pick<Clock, "now">,
  thread: Pick<ThreadPlace, "index" | "feed"> | undefined,
): LiveFeed {
  const own = createFeed(clock);
  return thread === undefined ? own : acrossThreads(own, thread);
}

/**
 * `wants`: this thread has listeners for a key, or has none any more; a new one asks what happened since a time. `tell`:
 * something happened that `to` wants.
 */
type Said =
  | { readonly say: "hello" }
  | {
      readonly say: "wants";
      readonly from: number;
      readonly keys: readonly string[];
      readonly since?: Since | undefined;
    }
  | { readonly say: "tell"; readonly to: number; readonly keyId: string; readonly message: FeedMessage };

interface Since {
  readonly keyId: string;
  readonly at: number;
}
type Listener = (message: FeedMessage) => void;

function acrossThreads(feed: LiveFeed, { index, feed: name }: Pick<ThreadPlace, "index" | "feed">): LiveFeed {
  const channel = new BroadcastChannel(name);
  /** Listeners of this thread. */
  const here = new Map<string, Set<Listener>>();
  /** What listens in this thread for another one, by thread and key. */
  const forOthers = new Map<number, Map<string, () => void>>();
  const say = (what: Said): void => channel.postMessage(what);
  const wants = (since?: Since): void => say({ say: "wants", from: index, keys: [...here.keys()], since });

  /** Sends what happens on those keys to that thread from now on, and on no others. */
  function serve(to: number, keys: readonly string[], since: Since | undefined): void {
    const before = forOthers.get(to) ?? new Map<string, () => void>();
    const now = new Map<string, () => void>();
    for (const keyId of keys) {
      const tell: Listener = (message) => {
        // Each thread hears of changed subscriptions itself.
        if (message.event !== "subscription") say({ say: "tell", to, keyId, message });
      };
      now.set(keyId, before.get(keyId) ?? feed.listen(keyId, tell));
    }
    for (const [keyId, stop] of before) if (!now.has(keyId)) stop();
    forOthers.set(to, now);
    if (since !== undefined && feed.happened(since.keyId, since.at))
      say({ say: "tell", to, keyId: since.keyId, message: { event: "again", data: {} } });
  }

  channel.onmessage = (event: unknown) => {
    const said = (event as { readonly data: Said }).data;
    if (said.say === "hello") wants();
    else if (said.say === "wants") serve(said.from, said.keys, said.since);
    else if (said.to === index) for (const tell of here.get(said.keyId) ?? []) tell(said.message);
  };
  channel.unref();
  // A thread that comes later learns what the others want, and they that it wants nothing yet.
  say({ say: "hello" });
  wants();

  return {
    ...feed,
    listen(keyId, send, since) {
      const tell: Listener = (message) => send(message);
      const stop = feed.listen(keyId, tell, since);
      const ofKey = here.get(keyId) ?? new Set();
      here.set(keyId, ofKey.add(tell));
      if (since !== undefined) wants({ keyId, at: since });
      else if (ofKey.size === 1) wants();
      return () => {
        stop();
        ofKey.delete(tell);
        if (ofKey.size > 0 || here.get(keyId) !== ofKey) return;
        here.delete(keyId);
        wants();
      };
    },
  };
}
