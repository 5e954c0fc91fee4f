/** The ledger of a source: a relay that is killed again and again in mid-stream, and what it has stored in the end. */
import { EVENT } from "../../core/model/schema.ts";
import { expect } from "vitest";
import { systemClock } from "../../core/runtime/clock.ts";
import { sqlite } from "../../plugins/storage/sqlite.ts";
import { startChild, type ChildOptions, type ChildRelay } from "./child-relay.ts";
import { pluginContext } from "./plugin-context.ts";
import { eventually } from "./until.ts";

export interface KilledRelay {
  /** The relay's folder. */
  readonly folder: string;
  /** The entry of `sources` in the config, as source text, and what it imports from `relaybox`. */
  readonly source: string;
  readonly imports: readonly string[];
  /** How many messages upstream has got: the `data` of their events is 0, 1, 2, … */
  readonly total: number;
  readonly kills: number;
  /** How many messages upstream still keeps, acknowledged ones not among them. */
  left(relay: ChildRelay | undefined): Promise<number>;
  /** Kills upstream too, and starts it again, while the last relay reads. */
  restart?(): Promise<void>;
}

/** Kills a relay that reads all of upstream, and lets the last one finish. Then each event is stored, and once. */
export async function expectNothingLost(killed: KilledRelay): Promise<void> {
  const { folder, source, imports, total, kills, left, restart } = killed;
  const options: ChildOptions = {
    config: `storage: sqlite({ dir: "./ledger" }), sources: [${source}],`,
    imports: [...imports, "sqlite"],
  };
  for (let kill = 1; kill <= kills; kill++) {
    await using relay = await startChild(folder, options);
    const rest = total - (total * kill) / (kills + 2);
    await eventually(`fewer than ${rest} are left before kill ${kill}`, async () => (await left(relay)) < rest);
    await relay.kill();
  }
  // RabbitMQ does not count what a relay holds: it is read again once that has stopped.
  for (let last = 0; ; last++) {
    await using relay = await startChild(folder, options);
    if (last === 0) await restart?.();
    await eventually("the last relay leaves none", async () => (await left(relay).catch(() => 1)) === 0);
    const isOver = restart === undefined;
    relay.running.kill("SIGTERM");
    await relay.running.ended;
    if (isOver || (await left(undefined)) === 0) break;
  }
  const seen = await storedData(`${folder}/ledger`);
  expect(seen.size).toBe(total);
  expect([...seen].filter(([, times]) => times !== 1)).toEqual([]);
}

/** How often each `data` is stored, in the folder of a sqlite storage that nobody has open. */
export async function storedData(dir: string): Promise<Map<unknown, number>> {
  const storage = await sqlite({ dir }).setup(pluginContext(systemClock(), dir));
  const seen = new Map<unknown, number>();
  for (let after: string | undefined; ;) {
    const page = await storage.range("event:", { after, limit: 1_000 });
    for (const { value } of page) {
      const { data } = JSON.parse(EVENT.orThrow(value).body) as { readonly data: unknown };
      seen.set(data, (seen.get(data) ?? 0) + 1);
    }
    after = page.at(-1)?.key;
    if (page.length < 1_000) break;
  }
  await storage.dispose();
  return seen;
}
