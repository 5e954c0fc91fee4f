/** What other nodes tell: changed keys, and that something is due. Missed messages are noticed by a number that grows. */
import type { Clock } from "../../../core/ports/clock.ts";
import type { Calls } from "./calls.ts";
import type { Client } from "./connect.ts";

/** How often the subscribing connection is asked whether it still lives. */
const ALIVE_MS = 1_000;
/** Prefixes of the watched shelves: "anything of these may have changed". */
const EVERYTHING = ["subscription:", "control:"] as const;

export interface Channel {
  watch(changed: (keys: readonly string[]) => void): () => void;
  /** A commit of this process touched these keys and made this epoch; 0 where that is not known. */
  own(epoch: number, keys: readonly string[]): void;
  /** Redis is at this epoch: whoever missed something is told before this returns. */
  seen(epoch: number): void;
  /** All up to this epoch has been told here. */
  readonly epoch: number;
  /** True while messages arrive. */
  readonly listening: boolean;
  close(): Promise<void>;
}

/**
 * @param alive tells Redis that this node lives; the epoch that Redis is at
 * @param word a question or an answer of another node
 */
export async function channel(
  make: () => Client,
  tag: string,
  clock: Clock,
  calls: Pick<Calls, "ask">,
  alive: () => Promise<number>,
  wake: (inMs: number) => void,
  word: (text: string) => void,
): Promise<Channel> {
  const listeners = new Set<(keys: readonly string[]) => void>();
  const ended = new AbortController();
  let epoch = 0;
  let listening = false;

  const tell = (keys: readonly string[]): void => {
    for (const listener of [...listeners]) listener(keys);
  };

  /** The next number in turn brings only its own keys; a gap means that messages were missed. */
  function advance(to: number, keys: readonly string[]): void {
    if (to === epoch + 1) epoch = to;
    else if (to > epoch) {
      epoch = to;
      tell(EVERYTHING);
    }
    if (keys.length > 0) tell(keys);
  }

  /** A Redis that lost its data counts from the beginning again. */
  function seen(to: number): void {
    if (to === epoch) return;
    epoch = to;
    tell(EVERYTHING);
  }

  const client = make();
  client.on("message", (name: string, message: string) => {
    if (name === `${tag}:wake`) return wake(Number(message));
    const space = message.indexOf(" ");
    const to = Number(message.slice(0, space));
    if (name === `${tag}:words`) {
      // Who speaks has committed before: what was missed of that is learnt first.
      if (to > epoch) seen(to);
      return word(message.slice(space + 1));
    }
    if (to <= epoch) return;
    try {
      advance(to, JSON.parse(message.slice(space + 1)) as string[]);
    } catch {
      tell(EVERYTHING);
    }
  });
  const gone = (): void => {
    listening = false;
  };
  client.on("close", gone);
  const listen = async (): Promise<void> => {
    await client.subscribe(`${tag}:wake`, `${tag}:changed`, `${tag}:words`);
    listening = true;
  };
  await client.connect();
  await listen();
  epoch = await alive();
  client.on("ready", () => {
    listen().then(
      () => {
        // What was told while nobody listened is lost.
        tell(EVERYTHING);
        wake(0);
      },
      // Not for long: a connection that cannot subscribe does not answer the next question either, and is made anew.
      () => {},
    );
  });

  /** A connection behind a black hole looks open for minutes; one that does not answer is dropped by its own timeout. */
  async function stayAlive(): Promise<void> {
    while (!ended.signal.aborted) {
      await clock.sleep(clock.now() + ALIVE_MS, ended.signal);
      await calls.ask(() => client.ping(), { repeatable: false, changes: false }).catch(() => {});
      // In a cluster the client mends its subscription without a word: the number tells what was missed meanwhile.
      await alive().then(seen, () => {});
    }
  }
  stayAlive().catch(() => {});

  return {
    watch(changed) {
      const listener = (keys: readonly string[]): void => changed(keys);
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    own: advance,
    seen,
    get epoch() {
      return epoch;
    },
    get listening() {
      return listening;
    },
    async close() {
      ended.abort();
      client.disconnect();
    },
  };
}
