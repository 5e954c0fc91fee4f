/** A transport over one named connection: what the buses and the file transport share. */
import type { Reply, Transport, TransportRequest } from "../../../core/ports/transport.ts";
import type { Destination } from "./destination.ts";
import { refused } from "./replies.ts";
import type { Sending, Sends } from "./sends.ts";

interface Bus {
  /** Without a colon: `nats`. */
  readonly scheme: string;
  /** Name of the connection. */
  readonly name: string;
  readonly destination: (url: string) => Destination;
  readonly sends: Sends;
  /** Why nothing can be sent now; `undefined` when it can. */
  readiness(): string | undefined;
  /** Sends once, to the parts of the destination. What it throws becomes the reply of `failed`. */
  publish(parts: readonly string[], request: TransportRequest, sending: Sending): Promise<Reply>;
  /** Must not throw. */
  failed(error: unknown, parts: readonly string[]): Reply;
  /** Lets go of the connection; nothing is sent after it. */
  close(): Promise<void> | void;
}

export function busTransport(bus: Bus): Transport {
  const { scheme, name, destination, sends } = bus;
  return {
    schemes: [scheme],
    name,
    problems(url) {
      const found = destination(url);
      return "problem" in found ? found.problem : undefined;
    },
    readiness: () => bus.readiness(),
    send(request, signal) {
      const found = destination(request.url);
      if ("problem" in found) return Promise.resolve(refused(`the URL ${found.problem}`));
      const { parts } = found;
      return sends.run(
        request,
        signal,
        (sending) => bus.publish(parts, request, sending),
        (error) => bus.failed(error, parts),
      );
    },
    async dispose() {
      sends.dispose();
      await bus.close();
    },
  };
}
