// A receiver on this machine for what the container delivers: TLS, signature checked, deliveries waited for by event id.
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { makeAuthority } from "../../cli/support/certificates.ts";
import { verifyHex, verifyStandard } from "../../core/signing/verify.ts";

export interface Receiver {
  readonly url: string;
  /** PEM of the authority to trust. */
  readonly ca: string;
  trust(secret: string): void;
  /** Resolves when the event has arrived with a valid signature. */
  received(eventId: string, withinMs: number): Promise<void>;
  close(): Promise<void>;
}

export async function openReceiver(): Promise<Receiver> {
  const authority = await makeAuthority(Date.now());
  const { cert, key } = await authority.issue(["127.0.0.1"]);
  const seen = new Set<string>();
  const waiting = new Map<string, () => void>();
  let secret = "";
  const server = createServer({ cert, key }, (request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      const body = Buffer.concat(parts);
      const good = verifyHex(body, request.headers, secret) && verifyStandard(body, request.headers, secret);
      response.writeHead(good ? 204 : 401).end();
      const id = String(request.headers["webhook-id"]);
      if (!good) return;
      seen.add(id);
      waiting.get(id)?.();
    });
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  return {
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}/hook`,
    ca: authority.ca,
    trust: (next) => void (secret = next),
    received: (eventId, withinMs) =>
      new Promise((resolve, reject) => {
        if (seen.has(eventId)) return resolve();
        const timer = setTimeout(() => reject(new Error(`${eventId} did not arrive within ${withinMs} ms`)), withinMs);
        waiting.set(eventId, () => {
          clearTimeout(timer);
          resolve();
        });
      }),
    close: async () => {
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
    },
  };
}
