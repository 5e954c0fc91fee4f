// The measure that everything is compared with: undici's request over TLS keep-alive, nothing else, in a process of its own.
// It sends a delivery in all its headers, made once: so both give the receiver the same to read and to check.
import { Pool } from "undici";
import { signedHeaders } from "../../core/signing/headers.ts";
import { signingKey } from "../../core/signing/secret.ts";
import { CONNECTIONS, deliveryLike, nowMs } from "./event.ts";
import type { LoopReply, LoopRequest } from "./messages.ts";

async function run({ url, ca, secret, seconds, rate }: LoopRequest): Promise<LoopReply> {
  const { origin, pathname: path } = new URL(url);
  const pool = new Pool(origin, { connections: CONNECTIONS, pipelining: 1, connect: { ca } });
  const body = Buffer.from(deliveryLike());
  const event = { eventId: "evt_00000000000000000000000000", type: "bench:event", body, attempt: 1, cycle: 0 };
  const headers = signedHeaders(event, [signingKey(secret)], Date.now());
  let requests = 0;
  const cpu = process.cpuUsage();
  const from = nowMs();
  const until = from + seconds * 1_000;
  const latencies: number[] = [];
  const one = async (): Promise<void> => {
    const reply = await pool.request({ method: "POST", path, headers, body });
    await reply.body.dump();
    requests++;
  };
  const flood = async (): Promise<void> => {
    while (nowMs() < until) await one();
  };
  const paced = async (perSecond: number): Promise<void> => {
    const open = new Set<Promise<void>>();
    for (let made = 0; nowMs() < until; await new Promise((done) => setTimeout(done, 1))) {
      const now = nowMs();
      for (; made < Math.floor(((now - from) * perSecond) / 1_000); made++) {
        const done = one().then(() => {
          latencies.push(nowMs() - now);
          open.delete(done);
        });
        open.add(done);
      }
    }
    await Promise.all(open);
  };
  await (rate === undefined ? Promise.all(Array.from({ length: CONNECTIONS }, flood)) : paced(rate));
  const ms = nowMs() - from;
  const { user, system } = process.cpuUsage(cpu);
  await pool.close();
  return { requests, ms, latencies, cpuMicroseconds: user + system };
}

process.on("message", (request: LoopRequest) => {
  run(request).then(
    (reply) => process.send?.(reply),
    (error: unknown) => {
      console.error(error);
      process.exit(1);
    },
  );
});
process.on("disconnect", () => process.exit(0));
