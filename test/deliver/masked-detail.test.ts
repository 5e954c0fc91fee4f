import { describe, expect, it } from "vitest";
import { createSend } from "../../core/deliver/send.ts";
import { testClock } from "../support/clock.ts";

describe("what a transport says of a failed attempt", () => {
  it.each(["error", "unavailable"] as const)("is kept without the secrets of the config, and cut: %s", async (kind) => {
    const detail = `no login with ${"s".repeat(600)} ${"x".repeat(600)}`;
    const send = createSend({
      transportOf: () => ({ schemes: [], dispose: async () => {}, send: async () => ({ kind, error: "tls", detail }) }),
      signer: { sign: () => ({}), hidden: () => [], credentials: () => undefined },
      clock: testClock(),
      timeoutMs: 1_000,
      hide: (text) => text.replaceAll(/s{600}/g, "[masked]"),
    });
    const event = { id: "evt_1", type: "a:b", ordinal: "0".repeat(20), keyId: "key_1" };
    const loaded = { event, body: new Uint8Array() } as never;
    const turn = { cycle: 0, number: 1 };
    const { reply, attempt } = await send(
      { id: "sub_1", url: "x://y" } as never,
      loaded,
      turn,
      new AbortController().signal,
    );
    expect(reply).toMatchObject({ kind, detail: expect.stringMatching(/^no login with \[masked\] x+$/) as string });
    expect(attempt.detail).toHaveLength(500);
  });
});
