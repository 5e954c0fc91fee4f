// The far side: a TLS server in a process of its own that checks every request's signature and body, and counts.
import { createHmac } from "node:crypto";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { acceptedAt, ENDING, nowMs, sentAt } from "./event.ts";
import type { FromReceiver, ToReceiver } from "./messages.ts";

const say = (message: FromReceiver): void => void process.send?.(message);

let secret = "";
let good = 0;
let bad = 0;
let ids = new Set<string>();
let fromSent: number[] = [];
let fromAccepted: number[] = [];
let wanted = Number.POSITIVE_INFINITY;

/** @param url tells the subscriptions of an event apart */
function check(body: Buffer, signature: string | string[] | undefined, id: unknown, url: string): void {
  const text = body.toString("latin1");
  if (!text.endsWith(ENDING) || signature !== createHmac("sha256", secret).update(body).digest("hex")) {
    bad++;
    return;
  }
  good++;
  if (typeof id === "string") {
    ids.add(`${id} ${url}`);
    fromSent.push(nowMs() - sentAt(text));
    fromAccepted.push(Date.now() - acceptedAt(text));
  }
  if (good >= wanted) {
    wanted = Number.POSITIVE_INFINITY;
    say({ kind: "reached", at: nowMs() });
  }
}

process.on("message", (message: ToReceiver) => {
  switch (message.kind) {
    case "listen": {
      const { cert, key } = message;
      const made = createServer({ cert, key, keepAlive: true, keepAliveTimeout: 60_000 }, (request, response) => {
        const parts: Buffer[] = [];
        request.on("data", (part: Buffer) => parts.push(part));
        request.on("end", () => {
          const body = parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts);
          const { headers, url = "" } = request;
          check(body, headers["x-relay-webhook-signature"], headers["webhook-id"], url);
          response.writeHead(200, { "content-length": "0" }).end();
        });
      });
      made.listen(0, "127.0.0.1", () => say({ kind: "listening", port: (made.address() as AddressInfo).port }));
      return;
    }
    case "secret":
      secret = message.secret;
      return say({ kind: "done" });
    case "reset":
      good = bad = 0;
      ids = new Set();
      fromSent = [];
      fromAccepted = [];
      return say({ kind: "done" });
    case "await":
      if (good >= message.count) return say({ kind: "reached", at: nowMs() });
      wanted = message.count;
      return;
    case "read":
      return say({ kind: "figures", good, bad, repeated: good - ids.size, fromSent, fromAccepted });
  }
});
process.on("disconnect", () => process.exit(0));
