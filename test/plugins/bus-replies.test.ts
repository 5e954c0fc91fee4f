// What a bus says of a refusal is shown to the subscriber, who never learns an address.
import { expect, it } from "vitest";
import { refusedBy } from "../../plugins/transport/buses/replies.ts";

it.each([
  ["MOVED 3999 127.0.0.1:6381", "MOVED 3999 …"],
  ["MOVED 3999 fd00::12:3:6381", "MOVED 3999 …"],
  ["ASK 12 redis-3.internal:6379", "ASK 12 …"],
  ["connect ECONNREFUSED 10.0.0.5", "connect ECONNREFUSED …"],
  ["getaddrinfo ENOTFOUND rabbit.internal", "getaddrinfo ENOTFOUND …"],
  ["[::1]:5672 has closed the connection", "… has closed the connection"],
  ["home node 'rabbit@mq-1' of durable queue 'q' is down", "home node '…' of durable queue 'q' is down"],
])("leaves the address out of %s", (said, shown) => {
  expect(refusedBy(said)).toEqual({ kind: "error", error: "protocol", detail: shown });
});

it.each([
  "WRONGTYPE Operation against a key holding the wrong kind of value",
  "NOT_FOUND - no exchange 'deposits.paid' in vhost '/'",
  "the stream deposits:paid is sealed (version 7.2.4)",
])("leaves %s as it is", (said) => {
  expect(refusedBy(said)).toMatchObject({ detail: said });
});
