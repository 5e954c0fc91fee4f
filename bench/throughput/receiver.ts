// The far side: a TLS server in a process of its own that checks every request's signature and body, and counts. It reads
// HTTP by itself, as cheaply as can be: it shares the cores with what is measured.
import type { AddressInfo, Socket } from "node:net";
import { createServer } from "node:tls";
import { HmacKey } from "../../core/signing/hmac.ts";
import { acceptedAt, ENDING, nowMs, sentAt } from "./event.ts";
import type { FromReceiver, ToReceiver } from "./messages.ts";

const say = (message: FromReceiver): void => void process.send?.(message);

let key = new HmacKey(Buffer.alloc(0));
let good = 0;
let bad = 0;
let ids = new Set<string>();
let fromSent: number[] = [];
let fromAccepted: number[] = [];
let wanted = Number.POSITIVE_INFINITY;

function check(head: string, body: Buffer): void {
  const text = body.toString("latin1");
  if (!text.endsWith(ENDING) || field(head, "x-relay-webhook-signature") !== key.sign("", body, "hex")) {
    bad++;
    return;
  }
  good++;
  ids.add(field(head, "webhook-id"));
  fromSent.push(nowMs() - sentAt(text));
  fromAccepted.push(Date.now() - acceptedAt(text));
  if (good >= wanted) {
    wanted = Number.POSITIVE_INFINITY;
    say({ kind: "reached", at: nowMs() });
  }
}

/** Of a header: its value; empty when there is none. Both senders write names in lower case. */
function field(head: string, name: string): string {
  const at = head.indexOf(`\r\n${name}: `);
  if (at < 0) return "";
  const from = at + name.length + 4;
  const end = head.indexOf("\r\n", from);
  return head.slice(from, end < 0 ? undefined : end);
}

const ANSWER = Buffer.from("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");

/** Takes the requests of one kept connection, one after the other. */
function take(socket: Socket): void {
  let seen: Buffer | undefined;
  socket.setNoDelay(true);
  socket.on("error", () => socket.destroy());
  socket.on("data", (part: Buffer) => {
    let rest = seen === undefined ? part : Buffer.concat([seen, part]);
    seen = undefined;
    while (rest.length > 0) {
      const headEnd = rest.indexOf("\r\n\r\n");
      const head = headEnd < 0 ? "" : rest.toString("latin1", 0, headEnd);
      const end = headEnd + 4 + Number(field(head, "content-length"));
      if (headEnd < 0 || rest.length < end) {
        seen = rest;
        return;
      }
      check(head, rest.subarray(headEnd + 4, end));
      socket.write(ANSWER);
      rest = rest.subarray(end);
    }
  });
}

process.on("message", (message: ToReceiver) => {
  switch (message.kind) {
    case "listen": {
      const made = createServer({ cert: message.cert, key: message.key }, take);
      made.listen(0, "127.0.0.1", () => say({ kind: "listening", port: (made.address() as AddressInfo).port }));
      return;
    }
    case "secret":
      key = new HmacKey(Buffer.from(message.secret));
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
