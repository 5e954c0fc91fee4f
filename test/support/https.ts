/** The https transport over a guard that opens loopback, for tests of what its options do. */
import { createGuard } from "../../core/guard/index.ts";
import type { GuardOptions } from "../../core/guard/index.ts";
import type { Clock } from "../../core/ports/clock.ts";
import type { ConnectTarget } from "../../core/ports/plugin.ts";
import type { Reply, Transport, TransportRequest } from "../../core/ports/transport.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { https } from "../../plugins/transport/https.ts";
import type { HttpsOptions } from "../../plugins/transport/https.ts";
import { testAuthority } from "./certificates.ts";
import { pluginContext } from "./plugin-context.ts";

export interface HttpsLine extends AsyncDisposable {
  readonly transport: Transport;
  /** Where connections were asked for, in order. */
  readonly targets: readonly ConnectTarget[];
  /** Sends one request; what is left out is an empty object to nowhere, of the subscription sub_1. */
  send(over: Partial<TransportRequest>, signal?: AbortSignal): Promise<Reply>;
}

export async function openHttps(given: {
  readonly options?: HttpsOptions;
  readonly guard?: Partial<GuardOptions>;
  readonly clock?: Clock;
  readonly configDir?: string;
}): Promise<HttpsLine> {
  const { options, clock = systemClock(), configDir = "" } = given;
  const { ca } = await testAuthority();
  const guard = createGuard({ allow: ["127.0.0.1:*", "localhost:*"], ports: [443], ca, clock, ...given.guard });
  const secrets: Readonly<Record<string, unknown>> = { proxy: options?.proxy };
  const targets: ConnectTarget[] = [];
  const connect: typeof guard.connect = (target, signal) => {
    targets.push(target);
    return guard.connect(target, signal);
  };
  const transport = await https(options).setup(
    pluginContext(clock, "", { connect, configDir, secret: (path) => String(secrets[path]) }),
  );
  const request = { url: "", headers: {}, body: Buffer.from("{}"), timeoutMs: 5_000, subscriptionId: "sub_1" };
  const ids = { keyId: "key_1", messageId: "dlv_1_0" };
  return {
    transport,
    targets,
    send: (over, signal = new AbortController().signal) => transport.send({ ...request, ...ids, ...over }, signal),
    [Symbol.asyncDispose]: () => transport.dispose(),
  };
}
