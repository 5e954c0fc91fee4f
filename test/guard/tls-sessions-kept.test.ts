/** How much of TLS sessions is kept, whatever the servers send: their tickets are text of their own choice. */
import { EventEmitter } from "node:events";
import type { TLSSocket } from "node:tls";
import { expect, it } from "vitest";
import { TlsSessions } from "../../core/guard/tls-sessions.ts";
import { testClock } from "../support/clock.ts";

/** A verified connection of TLS 1.3, which is given these sessions. */
function visit(sessions: TlsSessions, server: string, given: readonly Buffer[]): void {
  const socket = Object.assign(new EventEmitter(), {
    getProtocol: () => "TLSv1.3",
    isSessionReused: () => false,
    getPeerCertificate: () => ({ valid_to: "Jan 1 00:00:00 2099 GMT" }),
  });
  sessions.watch(server, socket as unknown as TLSSocket, undefined);
  for (const session of given) socket.emit("session", session);
}

/** Takes all that is kept for a server. */
function takeAll(sessions: TlsSessions, server: string): readonly Buffer[] {
  const taken: Buffer[] = [];
  for (let one = sessions.take(server); one !== undefined; one = sessions.take(server)) taken.push(one.session);
  return taken;
}

it("of one server eight sessions are kept, however many it gives in one connection or in several", () => {
  const sessions = new TlsSessions(testClock(0));
  visit(sessions, "a", Array<Buffer>(1_000).fill(Buffer.alloc(1_000)));
  expect(takeAll(sessions, "a")).toHaveLength(8);
  for (let i = 0; i < 10; i++) visit(sessions, "a", Array<Buffer>(5).fill(Buffer.alloc(1_000, i)));
  expect(takeAll(sessions, "a").map(([byte]) => byte)).toEqual([9, 9, 9, 9, 9, 8, 8, 8]);
});

it("a session that is far longer than usual is not kept", () => {
  const sessions = new TlsSessions(testClock(0));
  visit(sessions, "a", [Buffer.alloc(3_000), Buffer.alloc(60_000)]);
  expect(takeAll(sessions, "a").map(({ length }) => length)).toEqual([3_000]);
});

it("of all servers some megabytes are kept, and no more than a thousand of them are remembered: the newest", () => {
  for (const [bytes, servers] of [
    [6_000, 699],
    [1, 1_024],
  ] as const) {
    const sessions = new TlsSessions(testClock(0));
    for (let n = 0; n < 3_000; n++) visit(sessions, `server ${n}`, [Buffer.alloc(bytes)]);
    const kept = Array.from({ length: 3_000 }, (_, n) => n).filter((n) => takeAll(sessions, `server ${n}`).length > 0);
    expect(kept).toHaveLength(servers);
    expect(kept[0]).toBe(3_000 - servers);
  }
});

it("what was taken or forgotten makes room again", () => {
  const sessions = new TlsSessions(testClock(0));
  for (let round = 0; round < 4; round++) {
    for (let n = 0; n < 600; n++) visit(sessions, `server ${n}`, [Buffer.alloc(6_000)]);
    for (let n = 0; n < 600; n++)
      if (n % 2 === 0) takeAll(sessions, `server ${n}`);
      else sessions.refuse(`server ${n}`);
  }
  visit(sessions, "new", [Buffer.alloc(6_000)]);
  expect(takeAll(sessions, "new")).toHaveLength(1);
});
