/**
 * Hands due deliveries out to nodes that wait for some. Each goes to the node that wrote it, where that one has room: its
 * event is in that node's cache. Nobody else is woken then.
 */
import { setNewest } from "../../lib/bounded-map.ts";
import type { Due } from "../../model/delivery.ts";
import type { Clock } from "../../ports/clock.ts";
import type { ClaimRequest, Lease, Queue } from "../../ports/storage.ts";
import { createRooms } from "./rooms.ts";
import { leaseName } from "./storage-calls.ts";

/** Most due lines of which the node that wrote them is remembered. */
const WRITTEN = 20_000;
/** Rest after a queue that cannot say when to claim, ms. */
const REST_MS = 500;

interface HandOut<Node> {
  /** The node has added these lines. */
  wrote(node: Node, dues: readonly Due[]): void;
  /** The node waits from now on, until it claims: it is given leases up to this, or woken. */
  waits(node: Node, request: ClaimRequest): void;
  /** Claims for a node that asks, and for those that wait: they are given what they wrote. */
  claim(node: Node, request: ClaimRequest): Promise<readonly Lease[]>;
  /** The node has ended. */
  left(node: Node): void;
  close(): void;
}

/** A node that waits. */
interface Wait {
  readonly request: ClaimRequest;
  /** A claim for it is under way. */
  served: boolean;
}

/**
 * @param deps.lent is called with the name of each claimed lease, before anything else happens to it
 * @param deps.lives whether a node gave a sign of life lately: one that may hang is woken and given nothing
 * @param deps.give hands leases to a node that waited
 * @param deps.wake tells a node that waited to claim by itself
 */
export function createHandOut<Node>(deps: {
  readonly queue: Pick<Queue, "claim" | "wake" | "release">;
  readonly clock: Pick<Clock, "now" | "sleep">;
  readonly lent: (name: string) => void;
  readonly lives: (node: Node) => boolean;
  readonly give: (node: Node, leases: readonly Lease[]) => void;
  readonly wake: (node: Node) => void;
}): HandOut<Node> {
  const { queue, clock, lent, lives, give, wake } = deps;
  const waits = new Map<Node, Wait>();
  const writers = new Map<string, Node>();
  const closing = new AbortController();
  /** How many signals of the queue had come when a claim was last made for each node: a later one is news to it. */
  const seen = new Map<Node, number>();
  let signals = 0;
  let asked = Promise.withResolvers<void>();

  /** Claims for all of these at once and shares out what it gets: what nobody of them wrote goes to `asker` first. */
  async function claimFor(
    requests: ReadonlyMap<Node, ClaimRequest>,
    asker: Node | undefined,
  ): Promise<ReadonlyMap<Node, Lease[]>> {
    const rooms = createRooms(requests);
    const shares = new Map<Node, Lease[]>();
    for (const node of requests.keys()) seen.set(node, signals);
    const claiming = queue.claim(rooms.all);
    // The queue may signal again from here on.
    asked.resolve();
    const spare: Lease[] = [];
    for (const lease of await claiming) {
      const name = leaseName(lease);
      lent(name);
      const writer = writers.get(name);
      writers.delete(name);
      const node = rooms.take(lease.subscriptionId, writer !== undefined && requests.has(writer) ? writer : asker);
      const share = node === undefined ? spare : shares.get(node);
      if (share !== undefined) share.push(lease);
      else shares.set(node as Node, [lease]);
    }
    // One node has room for one more delivery, and another one for one more of its subscription, but none for both.
    await Promise.allSettled(spare.map((lease) => queue.release(lease)));
    return shares;
  }

  /** Claims for those that wait, and for one that asks. @throws StorageError; those that wait are woken then */
  async function serve(asker?: Node, request?: ClaimRequest): Promise<readonly Lease[]> {
    const requests = new Map<Node, ClaimRequest>();
    const served = new Map<Node, Wait>();
    for (const [node, wait] of waits) {
      if (wait.served) continue;
      if (!lives(node)) {
        waits.delete(node);
        wake(node);
        continue;
      }
      wait.served = true;
      served.set(node, wait);
      requests.set(node, wait.request);
    }
    if (asker !== undefined && request !== undefined) requests.set(asker, request);
    if (requests.size === 0) return [];
    let shares: ReadonlyMap<Node, Lease[]> | undefined;
    try {
      shares = await claimFor(requests, asker);
      return (asker === undefined ? undefined : shares.get(asker)) ?? [];
    } finally {
      for (const [node, wait] of served) end(node, wait, shares?.get(node), shares?.size);
      asked.resolve();
      serveMissed();
    }
  }

  /** Gives a node that waited its share. One that gets nothing waits on, unless what it counts as busy may be old. */
  function end(node: Node, wait: Wait, share: readonly Lease[] | undefined, shares: number | undefined): void {
    wait.served = false;
    const still = waits.get(node) === wait;
    const over = share !== undefined || shares === undefined || (shares === 0 && wait.request.busy.size > 0);
    if (still && over) waits.delete(node);
    if (share !== undefined) give(node, share);
    else if (still && over) wake(node);
  }

  /**
   * Serves nodes that were not waiting when the queue signalled. Another node's claim has ended that signal, but left what
   * that node had no room for.
   */
  function serveMissed(): void {
    for (const [node, { served }] of waits) {
      if (!served && seen.get(node) !== signals) return void serve().catch(() => undefined);
    }
  }

  /**
   * Serves after each signal of the queue, once for all that one turn of the event loop adds. A queue that fails is looked at
   * all the same after a rest: what is due must not wait for the next thread that asks.
   */
  async function run(): Promise<void> {
    const { signal } = closing;
    while (!signal.aborted) {
      await queue.wake(signal).catch(() => clock.sleep(clock.now() + REST_MS, signal).catch(() => undefined));
      signals++;
      await new Promise((turned) => setImmediate(turned));
      if ([...waits.values()].some(({ served }) => !served)) await serve().catch(() => undefined);
      else await (asked = Promise.withResolvers()).promise;
    }
  }

  void run();
  return {
    wrote(node, dues) {
      for (const due of dues) setNewest(writers, leaseName(due), node, WRITTEN);
    },
    waits(node, request) {
      waits.set(node, { request, served: false });
      asked.resolve();
      serveMissed();
    },
    claim(node, request) {
      waits.delete(node);
      return serve(node, request);
    },
    left(node) {
      waits.delete(node);
      seen.delete(node);
      for (const [name, writer] of writers) if (writer === node) writers.delete(name);
    },
    close() {
      closing.abort();
      asked.resolve();
    },
  };
}
