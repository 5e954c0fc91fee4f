/** Cluster messages: what the other nodes must do or know, and what this node does for them. */
import type { Log } from "../ports/plugin.ts";
import type { Nodes } from "../ports/storage.ts";

/**
 * `known`: only know of the change. `quiet`: let requests in flight end first. `stop`: abort what is
 * under way. `revive`: forget pauses and circuit breaker. `probe`: let the next attempt pass the circuit breaker. `pause`:
 * send nothing to the receiver for some time, as its `Retry-After` asks. `erased`: drop an event from the cache; it is
 * about an event, by its ordinal, or about all; the others are about a subscription.
 */
type ClusterMessage = "known" | "quiet" | "stop" | "revive" | "probe" | "pause" | "erased";

/** Stands for every event in the message `erased`. */
export const ALL_EVENTS = "all";

/** The actions of this node; each resolves when it is done. `ms` is the length of a `pause`. */
export type ClusterActions = Readonly<
  Record<Exclude<ClusterMessage, "known">, (id: string, ms: number) => Promise<unknown>>
>;

/** A node may have begun an attempt this long after its last sign of life (`FRESH_MS`); that attempt ends by itself. */
const SILENT_MS = 5_000;
/** A deletion waits longest: also for requests that a silent node may still have in flight. */
const STOP_MS = 15_000;

function waitsFor(message: ClusterMessage): { readonly mostMs: number; readonly silentMs: number } {
  if (message === "stop") return { mostMs: STOP_MS, silentMs: STOP_MS };
  return { mostMs: message === "quiet" ? 2_000 : SILENT_MS, silentMs: SILENT_MS };
}

interface ClusterMessages {
  /** Sets what this node does at each message, its own included. Called once, before the first message. */
  setActions(actions: ClusterActions): void;
  /**
   * Resolves when this node has done it, and every other node has too or its time is over.
   * @throws StorageError when the other nodes cannot be reached, and what this node's own action throws
   */
  ask(message: ClusterMessage, subscriptionId: string): Promise<void>;
  /**
   * Does the same for a change that is stored already. A failure of the other nodes must not fail the change, so it is
   * only logged. This node's own action begins before it returns.
   * @param ms how long a `pause` lasts
   * @throws what this node's own action throws
   */
  announce(message: ClusterMessage, subscriptionId: string, ms?: number): Promise<void>;
  /** From now on this node does what others ask. Returns a function that stops it. */
  listen(): () => void;
}

export function createClusterMessages(nodes: Nodes | undefined, log: Log): ClusterMessages {
  let actions: Partial<ClusterActions> = {};

  /** Runs this node's action of a message; `known` has none. */
  async function here(message: string, subscriptionId: string, ms = 0): Promise<void> {
    if (isAction(message, actions)) await actions[message]?.(subscriptionId, ms);
  }

  async function askOthers(message: ClusterMessage, subscriptionId: string, ms?: number): Promise<void> {
    if (nodes === undefined) return;
    const length = ms === undefined ? "" : ` ${ms}`;
    const all = await nodes.ask(`${message} ${subscriptionId}${length}`, waitsFor(message));
    if (!all) log.warn("another node did not confirm in time", { reason: message, subscriptionId });
  }

  const noted = (message: ClusterMessage, subscriptionId: string, ms?: number): Promise<void> =>
    askOthers(message, subscriptionId, ms).catch((error: unknown) =>
      log.warn("other nodes could not be notified", { reason: message, subscriptionId, error: String(error) }),
    );

  return {
    setActions: (all) => void (actions = all),
    async ask(message, id) {
      await Promise.all([askOthers(message, id), here(message, id)]);
    },
    async announce(message, id, ms) {
      await Promise.all([noted(message, id, ms), here(message, id, ms)]);
    },
    listen() {
      if (nodes === undefined) return () => {};
      return nodes.answer(async (text) => {
        const [message = "", subscriptionId = "", ms] = text.split(" ");
        await here(message, subscriptionId, Number(ms ?? 0));
      });
    },
  };
}

const isAction = (message: string, actions: Partial<ClusterActions>): message is keyof ClusterActions =>
  Object.hasOwn(actions, message);
