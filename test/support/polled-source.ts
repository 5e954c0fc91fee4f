/** The law of a source that reads from a real server: what upstream learns is seen at that server, on a clock that the test moves. */
import { expect, it } from "vitest";
import type { Source } from "../../core/ports/source.ts";
import { describeSource, type Upstream } from "../conformance/source.ts";
import { testClock, type TestClock } from "./clock.ts";
import { until } from "./until.ts";

export interface PolledSource {
  readonly source: Source;
  /** Puts a message where the source reads. */
  add(text: string): Promise<unknown>;
  /** Makes the source look once more, when it may have looked just before. */
  look?(): Promise<void>;
  /** What upstream has learned; `undefined` while that is open. */
  learned(): Promise<Upstream | undefined> | Upstream | undefined;
  /** Whether it goes on after a wait. @default at once */
  resumed?(): boolean;
}

/** Registers the law of a source. @param open a fresh source on the clock, which was not started */
export function describePolledSource(open: (clock: TestClock) => Promise<PolledSource>): void {
  interface Bench {
    readonly made: PolledSource;
    readonly clock: TestClock;
    readonly fate: () => Promise<Upstream>;
  }
  const benches = new WeakMap<object, Bench>();
  describeSource(it, {
    async open() {
      const clock = testClock();
      const made = await open(clock);
      let ended = false;
      const fate = async (): Promise<Upstream> => {
        let upstream: Upstream | undefined;
        await until(async () => {
          upstream = ended ? "later" : await made.learned();
          // Again, as it may have looked just before the message was there, and waits for the clock only now.
          if (upstream === undefined) await made.look?.();
          return upstream !== undefined;
        });
        return upstream as Upstream;
      };
      const under = {
        source: made.source,
        async publish(text: string) {
          await made.add(text);
          return await fate();
        },
        async [Symbol.asyncDispose]() {
          ended = true;
          await made.source.stop();
        },
      };
      benches.set(under, { made, clock, fate });
      return under;
    },
    async again(under) {
      const { made, clock, fate } = benches.get(under) ?? expect.fail();
      await clock.advance(1_000);
      await until(() => made.resumed?.() ?? true);
      return await fate();
    },
  });
}
