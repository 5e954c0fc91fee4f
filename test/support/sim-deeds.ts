/** What is asked of a simulated relay: events, subscriptions, changes of them, replays. Each is drawn by the world's own dice. */
import { Problem } from "../../core/model/problem.ts";
import * as path from "../../core/runtime/path.ts";
import { MOODS, type SimNet } from "./sim-net.ts";
import type { SimNode } from "./sim-node.ts";
import type { KnownSubscription, Published } from "./sim-oracle.ts";
import type { World } from "./sim-world.ts";

const ACTOR = { sub: "tester" };
const KEYS = ["k1", "k:2"];
const TYPES = ["a", "b"];
const DATA = ["1.0", "12345678901234567890", '"\\u0041\\u00e9"', "[1, 2]", '{"a":1,"a":2}', "null", '"é\u{1f600}"'];
/** A caller waits no longer than this for an answer. */
const PATIENCE_MS = 20_000;

/** Where deeds are done, and what they leave in memory for whoever judges the end. */
export interface DeedsIn {
  readonly world: World;
  readonly net: SimNet;
  /** Those that live. */
  readonly nodes: ReadonlyMap<string, SimNode>;
  readonly published: Map<string, Published>;
  readonly subscriptions: Map<string, KnownSubscription>;
  /** Subscriptions whose rotation was not answered. */
  readonly unknownSecret: Set<string>;
  /** All is well again: nothing is changed any more. */
  readonly healed: () => boolean;
}

export interface Deeds {
  publish(): Promise<void>;
  subscribe(): Promise<void>;
  change(sub: KnownSubscription): Promise<void>;
  replay(): Promise<void>;
  replayAll(sub: KnownSubscription): Promise<void>;
}

export function deeds({ world, net, nodes, published, subscriptions, unknownSecret, healed }: DeedsIn): Deeds {
  const { random, say } = world;
  let refs = 0;

  /** The answer, or undefined when there was none in time. */
  async function ask<T>(work: (node: SimNode) => Promise<T>): Promise<{ readonly value: T } | undefined> {
    const node = random.pick([...nodes.values()]);
    if (node === undefined) return undefined;
    return Promise.race([work(node).then((value) => ({ value })), world.sleep(PATIENCE_MS).then(() => undefined)]);
  }

  async function publish(): Promise<void> {
    const ref = `r${++refs}`;
    const keyId = random.pick(KEYS);
    const type = random.pick(TYPES);
    const own = random.chance(0.5) ? `order:${refs}` : undefined;
    const data = `{"ref":"${ref}","x":${random.pick(DATA)}}`;
    const event: Published = {
      ref,
      keyId,
      type,
      data,
      own,
      accepted: new Set(),
      open: false,
      askedAt: world.now(),
      answeredAt: Infinity,
    };
    published.set(ref, event);
    const text = `{${own === undefined ? "" : `"id":"${own}",`}"type":"${type}","keyId":"${keyId}","data":${data}}`;
    for (let tries = 0; tries < 3 && event.accepted.size === 0; tries++) {
      let answer: Awaited<ReturnType<typeof ask>>;
      try {
        // Until the answer is there, it may be stored.
        event.open = true;
        answer = await ask((node) =>
          node.get(path.INTAKE).accept({ publications: [{ text, path: "" }], source: "sim" }),
        );
        if (answer !== undefined) {
          const [accepted] = answer.value as readonly { readonly id: string }[];
          event.accepted.add((accepted as { id: string }).id);
          event.answeredAt = world.now();
          event.open = tries > 0 && own === undefined && event.open;
          say(`${(accepted as { id: string }).id} is accepted as ${ref}`);
          return;
        }
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        say(`${ref} is refused: ${error.code} ${error.message}`);
        if (tries === 0 && /nothing was stored/i.test(error.message)) event.open = false;
      }
      if (random.chance(0.5)) return;
      await world.sleep(random.int(10, 5_000));
    }
  }

  async function subscribe(): Promise<void> {
    const keyId = random.pick(KEYS);
    const type = random.pick(TYPES);
    const made = await ask((node) =>
      node.get(path.SUBSCRIPTIONS).create(keyId, { url: "https://receiver.example/hook", events: [type] }, ACTOR),
    );
    if (made === undefined) return;
    const { subscription, secret } = made.value;
    say(`${subscription.id} is made for ${keyId} ${type}`);
    subscriptions.set(subscription.id, {
      id: subscription.id,
      keyId,
      type,
      secrets: [secret],
      createdAt: world.now(),
      quiet: [],
      goneAt: Infinity,
      enabledAt: -1,
    });
    if (random.chance(0.6)) net.moods.set(subscription.id, random.pick(MOODS));
  }

  /** What may be asked of a subscription, and is refused now and then. */
  async function change(sub: KnownSubscription): Promise<void> {
    const what = random.pick(["disable", "disable", "enable", "enable", "delete", "rotate"] as const);
    if (healed()) return;
    say(`${what} ${sub.id}`);
    const asked = world.now();
    if (what === "delete") sub.goneAt = Math.min(sub.goneAt, asked);
    const over = Infinity;
    try {
      if (what === "rotate") {
        const answer = await ask((node) =>
          node.get(path.SUBSCRIPTIONS).rotate(sub.keyId, sub.id, random.pick([0, 60_000]), ACTOR),
        );
        if (answer !== undefined) sub.secrets.push(answer.value.secret);
        else unknownSecret.add(sub.id);
        return;
      }
      if (what === "enable") {
        for (const quiet of sub.quiet) quiet.over = Math.min(quiet.over, asked);
        sub.enabledAt = Infinity;
        const answer = await ask((node) =>
          node.get(path.SUBSCRIPTIONS).update(sub.keyId, sub.id, { status: "active" }, ACTOR),
        );
        if (answer !== undefined) sub.enabledAt = world.now();
        return;
      }
      const answer = await ask<unknown>((node) =>
        what === "delete"
          ? node.get(path.SUBSCRIPTIONS).remove(sub.keyId, sub.id, ACTOR)
          : node.get(path.SUBSCRIPTIONS).update(sub.keyId, sub.id, { status: "disabled" }, ACTOR),
      );
      if (answer === undefined || (what === "disable" && sub.enabledAt >= asked)) return;
      say(`${what} ${sub.id} is answered`);
      sub.quiet.push({ askedAt: asked, answeredAt: world.now(), over });
    } catch (error) {
      if (what === "rotate") unknownSecret.add(sub.id);
      say(`${what} ${sub.id} failed: ${String(error)}`);
    }
  }

  async function replay(): Promise<void> {
    const events = [...published.values()].filter(({ accepted }) => accepted.size > 0);
    if (events.length === 0) return;
    const event = random.pick(events);
    const sub = random.chance(0.4) && subscriptions.size > 0 ? random.pick([...subscriptions.values()]) : undefined;
    const [id] = event.accepted;
    const options = { force: random.chance(0.3), subscriptionId: sub?.id };
    say(`replay ${id} ${JSON.stringify(options)}`);
    await ask((node) => node.get(path.REPLAY).event(event.keyId, id as string, options)).catch((error: unknown) =>
      say(`replay of ${id} failed: ${String(error)}`),
    );
  }

  async function replayAll(sub: KnownSubscription): Promise<void> {
    await ask(async (node) => {
      const subscription = await node.get(path.DIRECTORY).get(sub.keyId, sub.id);
      if (subscription === undefined || subscription.status !== "active" || subscription.deletedAt !== undefined)
        return;
      say(`replay all that failed at ${sub.id}`);
      await node.get(path.REPLAY).failed({ subscription, limit: 100, perSecond: random.pick([0.2, 10]) });
    }).catch((error: unknown) => say(`replay failed: ${String(error)}`));
  }

  return { publish, subscribe, change, replay, replayAll };
}
