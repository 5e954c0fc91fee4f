import { describe, expect, it } from "vitest";
import { createContainer } from "../../core/runtime/compose/container.ts";

interface Parts {
  readonly clock: { readonly now: number };
  readonly cache: { readonly clock: Parts["clock"] };
  readonly queue: { readonly cache: Parts["cache"] };
}

describe("the container of a composition", () => {
  it("makes each part once, from those that were registered before it", () => {
    const container = createContainer<Parts>();
    let made = 0;
    container.put("clock", { now: 1 });
    container.make("cache", ["clock"], ({ clock }) => {
      made++;
      return { clock };
    });
    container.make("queue", ["cache"], ({ cache }) => ({ cache }));
    const { clock, cache, queue } = container.parts();
    expect(queue.cache).toBe(cache);
    expect(cache.clock).toBe(clock);
    expect(made).toBe(1);
  });

  it("refuses a part that needs one from below, so there is no circle", () => {
    const container = createContainer<Parts>();
    expect(() => container.make("queue", ["cache"], ({ cache }) => ({ cache }))).toThrow(
      "queue needs cache, which is not registered before it",
    );
  });

  it("shares nothing with another container", () => {
    createContainer<Parts>().put("clock", { now: 1 });
    const other = createContainer<Parts>();
    expect(() => other.make("cache", ["clock"], ({ clock }) => ({ clock }))).toThrow("cache needs clock");
  });
});
