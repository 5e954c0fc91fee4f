/** The laws of a source that reads messages from another system, beside those of every source: what is one event, and what grows. */
import { expect, it } from "vitest";
import type { Plugin } from "../../core/ports/plugin.ts";
import type { Accept, Source } from "../../core/ports/source.ts";
import { paid } from "./intake.ts";
import { ledger, openSource } from "./message-plugin.ts";
import { pacedClock } from "./paced-clock.ts";
import { eventually, until } from "./until.ts";

export interface MessageUpstream {
  /** Makes a queue, stream, topic or table that no other test has. Resolves to its name. */
  make(): Promise<string>;
  /** A source that reads it, with at most one message in flight, and one more that is fetched ahead. */
  read(name: string): Plugin<"source", Source>;
  send(name: string, payload: string): Promise<unknown>;
  /** Deletes it and makes it again, empty, under its name. Left out where nobody does that to it. */
  remake?(name: string): Promise<unknown>;
}

/** Looks at upstream and dials it again sooner, as the tests cannot wait for it; what bounds the end of a session stays. */
export const hasty = (ms: number): number => (ms > 10_000 ? ms / 30 : ms > 1_500 ? ms : Math.min(ms, 100));

/** What grows upstream, or is made again, is read within this time by the system's clock, ms. */
export const SEEN_MS = 60_000;

const fsync = { durability: "fsync" } as const;

/** Registers the laws. */
export function describeMessageSource({ make, read, send, remake }: MessageUpstream): void {
  const cloud = (source: string): string =>
    JSON.stringify({ specversion: "1.0", id: "1", source, type: "deposit:paid", relaykeyid: "key_1", data: 1 });
  const event = (data: number): string => JSON.stringify(paid({ data }));

  async function started(name: string, around: (accept: Accept) => Accept = (accept) => accept) {
    const opened = await openSource(read(name), { clock: pacedClock(hasty) });
    await opened.source.start(around(opened.desk.intake.accept), fsync);
    return { ...opened, [Symbol.asyncDispose]: () => opened.source.stop() };
  }

  it("takes CloudEvents of the same id for one event where they are of one source, and for two where not", async () => {
    const name = await make();
    for (const source of ["/a", "/b", "/a"]) await send(name, cloud(source));
    await using opened = await started(name);
    const repeats = (): number => opened.metrics.counted.get(`source_redelivered ${read(name).name}`) ?? 0;
    await until(() => opened.desk.told.length + repeats() === 3);
    await opened.source.stop();
    expect(opened.desk.told.map(({ id }) => id)).toEqual([
      expect.stringMatching(/^1:[0-9a-f]{20}$/),
      expect.stringMatching(/^1:[0-9a-f]{20}$/),
    ]);
    expect(opened.log.lines.filter(({ message }) => message === "a message is set aside")).toEqual([]);
  });

  if (remake === undefined) return;

  it("reads what was deleted upstream and made again", async () => {
    const name = await make();
    await using opened = await started(name);
    await send(name, event(1));
    await until(() => opened.desk.told.length === 1);
    await remake(name);
    await send(name, event(2));
    await eventually("it is read", () => opened.desk.told.length === 2, SEEN_MS);
    expect([...ledger(opened.desk.told)]).toEqual([
      [1, 1],
      [2, 1],
    ]);
  });

  it("reads it also where it was made again while nothing could be stored", async () => {
    const name = await make();
    const [called, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    await using opened = await started(name, (accept) => async (request) => {
      called.resolve();
      await gate.promise;
      return accept(request);
    });
    await send(name, event(1));
    await called.promise;
    await remake(name);
    await send(name, event(2));
    gate.resolve();
    await eventually("both are read", () => ledger(opened.desk.told).size === 2, SEEN_MS);
  });
}
