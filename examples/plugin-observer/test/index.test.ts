import { describe, expect, it } from "vitest";
import { testContext } from "relaybox/conformance";
import { myObserver } from "../src/index.ts";

describe("my-observer", () => {
  it("counts what has failed for good, by type", async () => {
    const plugin = myObserver({ types: ["deposit:paid"] });
    await using ctx = await testContext(plugin);
    const observer = await plugin.setup(ctx);
    for (const [id, type] of [
      ["evt_1", "deposit:paid"],
      ["evt_2", "deal:won"],
    ]) {
      observer.accepted?.({ id, type } as never);
      for (const status of ["pending", "failed"]) {
        observer.attempted?.({} as never, { eventId: id, status } as never, {} as never, { kind: "exhausted" });
      }
    }
    expect(Object.fromEntries(ctx.figures)).toEqual({
      'relay_observer_failed_total{type="deposit:paid"}': 1,
      'relay_observer_failed_total{type="other"}': 1,
    });
  });

  it("names what is wrong with its options", () => {
    expect(myObserver({ types: [""] }).problems?.map(({ path }) => path)).toEqual(["types.0"]);
  });
});
