// The far side: a TLS server in a process of its own that checks every request's signature and body, and counts.
import { createHmac } from "node:crypto";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { ENDING, nowMs, numberIn, sentAt } from "./event.ts";
import type { FromReceiver, ToReceiver } from "./messages.ts";

const say = (message: FromReceiver): void => void process.send?.(message);

let secret = "";
let good = 0;
let bad = 0;
let repeated = 0;
let delayMs = 0;
/** Numbers, where the subscriptions of an event are distinguished by the URL. */
let seen = new Set<number | string>();
let numbers: number[] = [];
let at: number[] = [];
let fromSent: number[] = [];
let wanted = Number.POSITIVE_INFINITY;
let patience: NodeJS.Timeout | undefined;

function reached(): void {
  wanted = Number.POSITIVE_INFINITY;
  clearTimeout(patience);
  say({ kind: "reached", at: nowMs() });
}

function check(body: Buffer, signature: string | string[] | undefined, url: string): void {
  const text = body.toString("latin1");
  if (!text.endsWith(ENDING) || signature !== createHmac("sha256", secret).update(body).digest("hex")) {
    bad++;
    return;
  }
  good++;
  const number = numberIn(text);
  seen.add(url === "/hook" ? number : `${number} ${url}`);
  if (seen.size === numbers.length) {
    repeated++;
    return;
  }
  const now = nowMs();
  numbers.push(number);
  at.push(now);
  fromSent.push(now - sentAt(text));
  if (numbers.length >= wanted) reached();
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
          check(body, headers["x-relay-webhook-signature"], url);
          const answer = (): void => void response.writeHead(200, { "content-length": "0" }).end();
          if (delayMs === 0) answer();
          else setTimeout(answer, delayMs);
        });
      });
      made.listen(0, "127.0.0.1", () => say({ kind: "listening", port: (made.address() as AddressInfo).port }));
      return;
    }
    case "secret":
      secret = message.secret;
      return say({ kind: "done" });
    case "reset":
      good = bad = repeated = 0;
      seen = new Set();
      numbers = [];
      at = [];
      fromSent = [];
      return say({ kind: "done" });
    case "delay":
      delayMs = message.ms;
      return say({ kind: "done" });
    case "await":
      wanted = message.count;
      if (numbers.length >= wanted) return reached();
      if (message.withinMs !== undefined) patience = setTimeout(reached, message.withinMs);
      return;
    case "read":
      return say({ kind: "figures", good, bad, repeated, numbers, at, fromSent });
  }
});
process.on("disconnect", () => process.exit(0));
