// A client that hangs up while its request is worked on: the request counts, and is no fault of the relay.
import { connect } from "node:net";
import { expect, it } from "vitest";
import { HOOK, LIST, serve } from "./serve.ts";
import type { Served } from "./serve.ts";

const ROW = "POST /api-keys/{keyId}/webhooks/{subscriptionId}/test";

/** Sends a request, hangs up as soon as `begun` resolves, and resolves when the relay has noticed. */
async function hangUp(api: Served, target: string, begun: Promise<void>, ended: Promise<void>): Promise<void> {
  const socket = connect(api.port, "127.0.0.1");
  socket.write(`POST ${target} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer all\r\nContent-Length: 0\r\n\r\n`);
  await begun;
  socket.destroy();
  await ended;
}

it("a request whose client hangs up has used its place in the limits, and is logged as no fault", async () => {
  let begin = Promise.withResolvers<void>();
  let end = Promise.withResolvers<void>();
  await using api = await serve({
    rows: { [ROW]: { perMinute: 10, per5s: 3 } },
    more: {
      ping: (_sub, signal) => {
        const [begun, ended] = [begin, end];
        return new Promise((_, reject) => {
          signal.addEventListener("abort", () => {
            reject(signal.reason as Error);
            setImmediate(() => setImmediate(ended.resolve));
          });
          begun.resolve();
        });
      },
    },
  });
  const data = (await api.ask("POST", LIST, { body: HOOK })).json.data as unknown as { readonly id: string };
  const target = `${LIST}/${data.id}/test`;
  for (let i = 0; i < 3; i++) {
    [begin, end] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    await hangUp(api, target, begin.promise, end.promise);
  }
  begin = Promise.withResolvers<void>();
  const passed = begin.promise.then(() => undefined);
  expect((await Promise.race([api.ask("POST", target), passed]))?.status).toBe(429);
  expect(api.log.lines.filter(({ level }) => level === "error")).toEqual([]);
});
