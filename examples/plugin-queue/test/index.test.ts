import { expect, it } from "vitest";
import { describeSource, testContext, type Upstream } from "relaybox/conformance";
import { myQueue } from "../src/index.ts";

/** A queue in memory, which tells what became of its message. */
function memoryQueue() {
  const offered = Promise.withResolvers<string>();
  const settled = Promise.withResolvers<Upstream>();
  const never = Promise.withResolvers<string>();
  let taken = false;
  return {
    offer: offered.resolve,
    fate: settled.promise,
    settle: settled.resolve,
    next(signal: AbortSignal): Promise<string> {
      signal.addEventListener("abort", () => never.reject(signal.reason));
      const message = taken ? never.promise : offered.promise;
      taken = true;
      return Promise.race([message, never.promise]);
    },
  };
}

let learned: () => Promise<Upstream>;
let later: () => Promise<void>;

describeSource(it, {
  async open() {
    const queue = memoryQueue();
    const plugin = myQueue({ queue });
    const ctx = await testContext(plugin);
    const source = await plugin.setup(ctx);
    learned = () => Promise.race([queue.fate, ctx.clock.whenSleeping().then((): Upstream => "later")]);
    later = () => ctx.clock.advance(1_000);
    return {
      source,
      publish(text) {
        queue.offer(text);
        return learned();
      },
      async [Symbol.asyncDispose]() {
        await source.stop();
        await ctx[Symbol.asyncDispose]();
      },
    };
  },
  async again() {
    await later();
    return await learned();
  },
});

it("names what is wrong with its options", () => {
  expect(myQueue({} as never).problems?.map(({ path }) => path)).toEqual(["queue"]);
});
