/** Publishes each delivery on a bus, at my-bus://name/topic, and uses up no attempt while the bus is away. */
import { optionProblems } from "relaybox";
import type { Plugin, Transport } from "relaybox";

/** What a client of the bus does. */
export interface Bus {
  readonly isUp: boolean;
  /** Resolves when the bus has confirmed the message. */
  publish(topic: string, body: Uint8Array, signal: AbortSignal): Promise<void>;
}

export interface Options {
  /** Stands in the place of a host in URLs. */
  readonly name: string;
  /** The client of the bus. */
  readonly bus: Bus;
}

const busProblems = (bus: unknown) =>
  typeof (bus as Partial<Bus> | undefined)?.publish === "function"
    ? []
    : [{ path: "bus", message: "must be a client" }];
const nameProblems = (name: unknown) =>
  typeof name === "string" && /^[a-z]+$/.test(name) ? [] : [{ path: "name", message: "must be letters" }];

export function myBus(options: Options): Plugin<"transport", Transport> {
  const { name, bus } = options ?? {};
  const problems = (url: string) =>
    new RegExp(`^my-bus://${name}/[a-z]+$`).test(url) ? undefined : `must be my-bus://${name}/ and a topic`;
  return {
    kind: "transport",
    name: `my-bus:${name}`,
    problems: optionProblems<Options>(options, { name: nameProblems, bus: busProblems }),
    setup: () => ({
      schemes: ["my-bus"],
      name,
      problems,
      readiness: () => (bus.isUp ? undefined : "the bus is away"),
      async send({ url, body, timeoutMs }, signal) {
        signal.throwIfAborted();
        // Its subscriptions are paused until `readiness` says nothing, and no attempt is used up.
        if (!bus.isUp) return { kind: "unavailable", detail: "the bus is away" };
        const ends = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
        try {
          await bus.publish(new URL(url).pathname.slice(1), body, ends);
          return { kind: "response", status: 200, excerpt: new Uint8Array(), truncated: false };
        } catch (error) {
          signal.throwIfAborted();
          return { kind: "error", error: ends.aborted ? "timeout" : "reset", detail: String(error) };
        }
      },
      dispose: () => Promise.resolve(),
    }),
  };
}
