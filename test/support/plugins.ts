/** Plug-ins that do nothing, for tests that give one of them a part to play. */
import type { SourcePlugin, TransportPlugin } from "../../core/ports/plan.ts";
import type { Source } from "../../core/ports/source.ts";
import type { Reply, Transport } from "../../core/ports/transport.ts";

export const OK: Reply = { kind: "response", status: 200, excerpt: new Uint8Array(), truncated: false };

export const idleSource = (over: Partial<Source> = {}): Source => ({
  start: () => undefined,
  stop: () => Promise.resolve(),
  ...over,
});

export const sourcePlugin = (
  name: string,
  over: Partial<Source> = {},
  more: Partial<SourcePlugin> = {},
): SourcePlugin => ({
  kind: "source",
  name,
  setup: () => idleSource(over),
  ...more,
});

/** A transport of `<name>:` URLs that answers 200 to everything. */
export const transportPlugin = (
  name: string,
  over: Partial<Transport> = {},
  more: Partial<TransportPlugin> = {},
): TransportPlugin => ({
  kind: "transport",
  name,
  setup: () => ({
    schemes: [name],
    problems: () => undefined,
    send: () => Promise.resolve(OK),
    dispose: () => Promise.resolve(),
    ...over,
  }),
  ...more,
});

/** Returns a function that throws. */
export const throwing =
  (thrown: unknown = new Error("broken")) =>
  (): never => {
    throw thrown;
  };
