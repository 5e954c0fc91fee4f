/** Sessions of TLS over real sockets: when a connection is resumed, and when it must be verified once more. */
import { createServer } from "node:tls";
import type { TLSSocket, TlsOptions } from "node:tls";
import { connect, createServer as createGate, type AddressInfo, type Socket } from "node:net";
import { describe, expect, it } from "vitest";
import { createGuard } from "../../core/guard/index.ts";
import type { Guard } from "../../core/guard/index.ts";
import type { TlsIdentity } from "../../core/ports/plugin.ts";
import { clientCertificate, loopbackCertificate, makeAuthority, testAuthority } from "../support/certificates.ts";
import { testClock, turn } from "../support/clock.ts";

const never = new AbortController().signal;
const HOUR = 3_600_000;
/** The key by which a server encrypts its tickets: two servers with the same one know each other's sessions. */
const TICKET_KEYS = Buffer.alloc(48, 7);

interface Server extends AsyncDisposable {
  readonly port: number;
}

/** A TLS server that greets every connection, so that a client knows when it has read its tickets. */
async function serve(options: TlsOptions = {}, port = 0): Promise<Server> {
  const sockets = new Set<TLSSocket>();
  const server = createServer({ ...(await loopbackCertificate()), ticketKeys: TICKET_KEYS, ...options }, (socket) => {
    sockets.add(socket.on("error", () => undefined).on("close", () => sockets.delete(socket)));
    socket.write("hello");
  });
  server.on("tlsClientError", () => undefined);
  await new Promise<void>((resolve) => void server.listen(port, "127.0.0.1", resolve));
  return {
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}

/** A server behind a gate that closes each connection whose first bytes offer a session. */
async function refusing(port: number, refused: () => void): Promise<Server> {
  const inner = await serve();
  const sockets = new Set<Socket>();
  const gate = createGate((socket) => {
    sockets.add(socket.on("error", () => undefined));
    socket.once("data", (hello: Buffer) => {
      if (offersSession(hello)) return void (refused(), socket.destroy());
      const out = connect(inner.port, "127.0.0.1").on("error", () => socket.destroy());
      out.write(hello);
      socket.pipe(out).pipe(socket);
    });
  });
  await new Promise<void>((resolve) => void gate.listen(port, "127.0.0.1", resolve));
  return {
    port,
    async [Symbol.asyncDispose]() {
      const closed = new Promise((resolve) => gate.close(resolve));
      for (const socket of sockets) socket.destroy();
      await closed;
      await inner[Symbol.asyncDispose]();
    },
  };
}

/** True when a ClientHello has a session ticket (extension 35) that is not empty, or a pre-shared key (41). */
function offersSession(hello: Buffer): boolean {
  // Record and handshake head, version, random.
  let at = 5 + 4 + 2 + 32;
  at += 1 + hello.readUInt8(at);
  at += 2 + hello.readUInt16BE(at);
  at += 1 + hello.readUInt8(at);
  const end = at + 2 + hello.readUInt16BE(at);
  for (at += 2; at + 4 <= end; at += 4 + hello.readUInt16BE(at + 2)) {
    const kind = hello.readUInt16BE(at);
    if (kind === 41 || (kind === 35 && hello.readUInt16BE(at + 2) > 0)) return true;
  }
  return false;
}

async function guardOf(): Promise<{ readonly guard: Guard; readonly clock: ReturnType<typeof testClock> }> {
  const clock = testClock(Date.now());
  const { ca } = await testAuthority();
  return { clock, guard: createGuard({ allow: ["localhost:*", "127.0.0.1:*"], ports: [443], clock, ca }) };
}

/** Opens a connection, reads the greeting, closes it. @returns whether it was resumed */
async function visit(guard: Guard, port: number, hostname = "localhost", identity?: TlsIdentity): Promise<boolean> {
  const socket = (await guard.connect({ hostname, port, identity }, never)) as TLSSocket;
  await new Promise((resolve) => socket.once("data", resolve));
  await turn();
  const reused = socket.isSessionReused();
  expect(socket.authorized).toBe(true);
  await new Promise((resolve) => socket.once("close", resolve).destroy());
  return reused;
}

describe("a connection that is opened again", () => {
  it.each(["TLSv1.2", "TLSv1.3"] as const)("resumes the session of the one before (%s)", async (maxVersion) => {
    await using server = await serve({ maxVersion });
    const { guard } = await guardOf();
    expect(await visit(guard, server.port)).toBe(false);
    expect(await visit(guard, server.port)).toBe(true);
  });

  it("is never linked to two others by one ticket of TLS 1.3", async () => {
    await using server = await serve();
    const { guard } = await guardOf();
    const visits: boolean[] = [];
    for (let i = 0; i < 4; i++) visits.push(await visit(guard, server.port));
    // The server gives two tickets with a full handshake, and none with a resumed one.
    expect(visits).toEqual([false, true, true, false]);
  });

  it("does not take over the session of another name or another port", async () => {
    await using server = await serve();
    await using other = await serve();
    const { guard } = await guardOf();
    expect(await visit(guard, server.port)).toBe(false);
    expect(await visit(guard, server.port, "127.0.0.1")).toBe(false);
    expect(await visit(guard, other.port)).toBe(false);
  });

  it("does not take over the session of another identity", async () => {
    const { ca } = await testAuthority();
    await using server = await serve({ requestCert: true, rejectUnauthorized: false, ca });
    const { guard } = await guardOf();
    const [one, two] = [await clientCertificate(), await clientCertificate()];
    expect(await visit(guard, server.port)).toBe(false);
    for (const identity of [one, two, { ca }])
      expect(await visit(guard, server.port, "localhost", identity)).toBe(false);
    for (const identity of [one, two, undefined])
      expect(await visit(guard, server.port, "localhost", identity)).toBe(true);
    expect(await visit(guard, server.port, "localhost", { ...one })).toBe(false);
  });

  it("is verified in full after an hour, however often it was resumed", async () => {
    await using server = await serve({ maxVersion: "TLSv1.2" });
    const { guard, clock } = await guardOf();
    await visit(guard, server.port);
    await clock.advance(HOUR - 1);
    expect(await visit(guard, server.port)).toBe(true);
    await clock.advance(1);
    expect(await visit(guard, server.port)).toBe(false);
  });

  it("is verified in full when the certificate has ended meanwhile", async () => {
    const { issue } = await testAuthority();
    const certificate = await issue(["localhost"], { until: Date.now() + 600_000 });
    await using server = await serve({ ...certificate, maxVersion: "TLSv1.2" });
    const { guard, clock } = await guardOf();
    await visit(guard, server.port);
    await clock.advance(590_000);
    expect(await visit(guard, server.port)).toBe(true);
    await clock.advance(20_000);
    expect(await visit(guard, server.port)).toBe(false);
  });
});

describe("a server that offers no session any more", () => {
  it("is refused when its certificate is not trusted now", async () => {
    const { guard } = await guardOf();
    const first = await serve();
    const { port } = first;
    await visit(guard, port);
    await first[Symbol.asyncDispose]();
    const strange = await (await makeAuthority(Date.now())).issue(["localhost"]);
    await using _second = await serve({ ...strange, ticketKeys: Buffer.alloc(48, 8) }, port);
    await expect(visit(guard, port)).rejects.toMatchObject({ stage: "tls" });
  });

  it("is refused when its certificate is of another name now", async () => {
    const { guard } = await guardOf();
    const first = await serve();
    const { port } = first;
    await visit(guard, port);
    await first[Symbol.asyncDispose]();
    const other = await (await testAuthority()).issue(["elsewhere.example.com"]);
    await using _second = await serve({ ...other, ticketKeys: Buffer.alloc(48, 8) }, port);
    await expect(visit(guard, port)).rejects.toMatchObject({ stage: "tls" });
  });

  it.each(["TLSv1.2", "TLSv1.3"] as const)(
    "gets one full handshake at once when it refuses the session that it is offered (%s)",
    async (maxVersion) => {
      const { guard } = await guardOf();
      let refused = 0;
      const first = await serve({ maxVersion });
      const { port } = first;
      await visit(guard, port);
      await first[Symbol.asyncDispose]();
      // As a server does that takes part in no resumption: it ends a handshake which asks for one.
      await using second = await refusing(port, () => refused++);
      expect(await visit(guard, second.port)).toBe(false);
      expect(refused).toBe(1);
    },
  );

  it("gets full handshakes for a while after it failed with one", async () => {
    const { guard, clock } = await guardOf();
    const first = await serve();
    const { port } = first;
    await visit(guard, port);
    await first[Symbol.asyncDispose]();
    const { key, cert } = await (await makeAuthority(Date.now())).issue(["localhost"]);
    const bad = await serve({ key, cert, ticketKeys: Buffer.alloc(48, 8) }, port);
    await expect(visit(guard, port)).rejects.toMatchObject({ stage: "tls" });
    await bad[Symbol.asyncDispose]();
    await using _again = await serve({}, port);
    expect(await visit(guard, port)).toBe(false);
    expect(await visit(guard, port)).toBe(false);
    await clock.advance(600_000);
    expect(await visit(guard, port)).toBe(false);
    expect(await visit(guard, port)).toBe(true);
  });
});
