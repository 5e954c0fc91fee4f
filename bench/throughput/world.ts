/** A relay with one healthy subscription, the receiver behind it and a publisher: what most benches measure in. */
import { makeAuthority } from "../../cli/support/certificates.ts";
import { KEY_ID } from "./event.ts";
import type { FromReceiver } from "./messages.ts";
import { own, start } from "./process.ts";
import { prepare, type RelayOptions, type RunningRelay } from "./relay.ts";
import type { World } from "./rounds.ts";

/** The relay is measured as it runs for months: until then V8 is still compiling what is hot. */
export const WARM_SECONDS = 10;

export interface OpenWorld extends World {
  /** The receiver shows it for `127.0.0.1`; further ones may show it too. */
  readonly tls: { readonly cert: string; readonly key: string };
  /** The relay's process. Another start replaces it. */
  running: RunningRelay;
  /** Starts the relay once more, after it was stopped. */
  restart(): Promise<RunningRelay>;
  /** Ends the relay, the receiver and the publisher. */
  end(): Promise<void>;
}

/** Makes and starts all of it. The subscription is of `key_bench`. */
export async function openWorld(options: Omit<RelayOptions, "ca">): Promise<OpenWorld> {
  const { ca, issue } = await makeAuthority(Date.now());
  const tls = await issue(["127.0.0.1"]);
  const receiver = start("receiver.ts");
  const { port } = await receiver.ask<Extract<FromReceiver, { kind: "listening" }>>({ kind: "listen", ...tls });
  const url = `https://127.0.0.1:${port}/hook`;
  const relay = await prepare({ ...options, ca });
  const begin = async (): Promise<RunningRelay> => {
    const running = await relay.start();
    own(running.child);
    return running;
  };
  const running = await begin();
  const secret = await relay.subscribe(KEY_ID, url);
  await receiver.ask({ kind: "secret", secret });
  const publisher = start("publisher.ts");
  const world: OpenWorld = {
    receiver,
    publisher,
    relay,
    url,
    ca,
    tls,
    secret,
    running,
    restart: async () => (world.running = await begin()),
    async end() {
      await world.running.stop();
      receiver.end();
      publisher.end();
    },
  };
  return world;
}
