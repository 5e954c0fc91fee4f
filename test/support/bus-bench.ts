/** Parts of the tests of bus transports: a request to send, and the context of a plug-in with its secrets. */
import type { Log, PluginContext } from "../../core/ports/plugin.ts";
import type { TransportPlugin } from "../../core/ports/plan.ts";
import type { Reply, Transport, TransportRequest } from "../../core/ports/transport.ts";
import { systemClock } from "../../core/runtime/clock.ts";
import { pluginContext } from "./plugin-context.ts";

/** A context whose secrets are those that the plug-in's options give as text. */
export const busContext = (plugin: TransportPlugin, more: Partial<PluginContext> = {}): PluginContext =>
  pluginContext(systemClock(), "/nonexistent", {
    secret: (path) => plugin.secrets?.[path] as string,
    ...more,
  });

export async function setUp(plugin: TransportPlugin, more: Partial<PluginContext> = {}): Promise<Transport> {
  return await plugin.setup(busContext(plugin, more));
}

/** A log that keeps what it is told, as `warn a connection to NATS failed`. */
export function keptLog(): { readonly log: Log; readonly said: readonly string[] } {
  const said: string[] = [];
  const keep = (level: string) => (message: string) => void said.push(`${level} ${message}`);
  return { said, log: { debug: keep("debug"), info: keep("info"), warn: keep("warn"), error: keep("error") } };
}

let count = 0;

/** Sends once, with a message id of its own unless `more` gives one. */
export const sendTo = (
  transport: Transport,
  url: string,
  more: Partial<TransportRequest> = {},
  signal = new AbortController().signal,
): Promise<Reply> =>
  transport.send(
    {
      url,
      headers: { "webhook-id": "evt_1" },
      body: Buffer.from('{"id":"evt_1","keyId":"key_1","data":{"n":1}}'),
      timeoutMs: 10_000,
      subscriptionId: "sub_1",
      keyId: "key_1",
      messageId: `dlv_${++count}_sub_0`,
      ...more,
    },
    signal,
  );

export const textOf = (reply: Reply): string =>
  reply.kind === "response"
    ? `${reply.status} ${Buffer.from(reply.excerpt).toString()}`
    : `${reply.kind} ${reply.detail}`;

/** Waits until the transport can send. */
export async function whenReady(transport: Transport): Promise<void> {
  while (transport.readiness?.() !== undefined) await new Promise((resolve) => setTimeout(resolve, 10));
}

export async function whenNotReady(transport: Transport): Promise<string> {
  for (;;) {
    const why = transport.readiness?.();
    if (why !== undefined) return why;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
