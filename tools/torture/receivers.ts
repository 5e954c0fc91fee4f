// Hostile receivers over real TLS, and a book of all they were sent.
import { createHash } from "node:crypto";
import { createServer, type Server } from "node:https";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { makeAuthority } from "../../cli/support/certificates.ts";
import type { Random } from "./random.ts";
import { TIMEOUT_MS } from "./relay.ts";
import { makeSubject, MOODS, signatureFault, type Entry, type Mood, type Subject } from "./subject.ts";

/** An event that should not have happened, unless a fault of that time excuses it. */
export interface Doubt {
  readonly text: string;
  /** Ms of `performance.now()`. */
  readonly from: number;
  readonly to: number;
  /** Of a secret that signs after its end: when its rotation was asked for and answered. */
  readonly rotated?: { readonly from: number; readonly to: number } | undefined;
}

export interface Receivers extends AsyncDisposable {
  readonly ca: string;
  /** Where it is: one origin for all, and one for a receiver that must not be taken for one of them. */
  origin(subject: Subject): string;
  readonly subjects: readonly Subject[];
  /** A receiver for a subscription that is about to be made; its URL is `<origin>/s/<number>`. @param apart at an origin of its own */
  add(keyId: string, type: string, stable: boolean, apart?: boolean): Subject;
  /** A line for each request that no honest relay sends. */
  readonly wrong: string[];
  readonly doubts: readonly Doubt[];
  requests(): number;
  /** When the last request arrived, ms of `performance.now()`. */
  lastAt(): number;
  calm(): void;
}

const SLOW_MS = 900;
/** A request that was sent before a promise may be read so much after it. */
const LAG_MS = 1_000;
/** A request may have been signed so long before it is read. */
export const SIGNED_BEFORE_MS = TIMEOUT_MS + LAG_MS;
/** A connection that ends so soon after a request was read had ended before, on a busy machine. */
const HUNG_UP_MS = 200;

export async function openReceivers(random: Random): Promise<Receivers> {
  const authority = await makeAuthority(Date.now(), "Relay torture CA");
  const { cert, key } = await authority.issue(["127.0.0.1"]);
  const subjects: Subject[] = [];
  const wrong: string[] = [];
  const doubts: Doubt[] = [];
  const lastOn = new WeakMap<Socket, { readonly at: number; readonly entry: Entry; readonly turn: string }>();
  let requests = 0;
  let lastAt = performance.now();

  function note(
    subject: Subject,
    { headers, socket }: IncomingMessage,
    body: Buffer,
  ): Entry & { readonly cycle: number } {
    const now = (lastAt = performance.now());
    requests++;
    const id = String(headers["webhook-id"]);
    const where = `${id} at ${subject.number}`;
    // An attempt is signed when it begins, and may wait for its connection until it times out.
    const signedAt = now - SIGNED_BEFORE_MS;
    const fault = signatureFault(subject, body, headers, signedAt);
    if (fault !== undefined)
      doubts.push({ text: `${where} ${fault.text}`, from: signedAt, to: now, rotated: fault.rotated });
    const number = Number(headers["x-relay-attempt"]);
    const cycle = Number(headers["x-relay-replay"] ?? 0);
    if (!(number >= 1 && number <= 5)) wrong.push(`${where}: attempt ${number}`);
    for (const { from, until, why } of subject.quiet) {
      if (now > from + LAG_MS && now < until)
        doubts.push({ text: `${where} was sent ${Math.round(now - from)} ms after it was ${why}`, from, to: now });
    }
    const sha = createHash("sha256").update(body).digest("base64");
    let entry = subject.book.get(id);
    if (entry === undefined)
      subject.book.set(id, (entry = { sha, taken: new Set(), requests: new Map(), givenUp: new Set() }));
    if (entry.sha !== sha) wrong.push(`${where} has two bodies`);
    const turn = `${cycle}/${number}`;
    const before = entry.requests.get(turn);
    if (before === undefined) entry.requests.set(turn, [now]);
    else before.push(now);
    lastOn.set(socket, { at: now, entry, turn });
    return { ...entry, cycle };
  }

  function hungUp(socket: Socket): void {
    const last = lastOn.get(socket);
    if (last !== undefined && performance.now() - last.at < HUNG_UP_MS) last.entry.givenUp.add(last.turn);
  }

  /** Not the relay but the receiver ends the connection. */
  function hangUp({ socket }: ServerResponse): void {
    if (socket === null) return;
    lastOn.delete(socket);
    socket.destroy();
  }

  function answer(mood: Mood, { taken, cycle }: ReturnType<typeof note>, response: ServerResponse): void {
    const end = (status: number, headers: Record<string, string> = {}): void => {
      if (status < 300) taken.add(cycle);
      response.writeHead(status, { "content-length": "0", ...headers }).end();
    };
    switch (mood) {
      case "well":
        return end(200);
      case "failing":
        return end(random.pick([500, 404, 302]));
      case "slow":
        setTimeout(() => end(200), random.next() * SLOW_MS).unref();
        return;
      case "hanging":
        return;
      case "forgetful":
        // It has it, and the relay never hears.
        hangUp(response);
        return;
      case "busy":
        return end(random.pick([429, 503]), { "retry-after": "1" });
      case "torn":
        // Complete headers are success, whatever the body does after.
        taken.add(cycle);
        response.writeHead(200, { "content-length": "100" });
        response.write("half");
        setTimeout(() => hangUp(response), 20).unref();
        return;
      case "wild":
        return answer(random.pick(MOODS), { taken, cycle } as ReturnType<typeof note>, response);
    }
  }

  const handle = (request: IncomingMessage, response: ServerResponse): void => {
    const parts: Buffer[] = [];
    request.on("error", () => undefined);
    response.on("error", () => undefined);
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      const subject = subjects[Number(request.url?.slice("/s/".length))];
      if (subject === undefined) return void response.writeHead(404).end();
      const noted = note(subject, request, Buffer.concat(parts));
      answer(subject.mood, noted, response);
    });
  };
  const servers: Server[] = [];
  const origins: string[] = [];
  for (let i = 0; i < 2; i++) {
    const server = createServer({ cert, key, keepAlive: true }, handle);
    server.on("tlsClientError", () => undefined);
    server.on("secureConnection", (socket) => socket.once("close", () => hungUp(socket)));
    await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
    origins.push(`https://127.0.0.1:${(server.address() as AddressInfo).port}`);
    servers.push(server);
  }
  const apart = new Set<Subject>();
  return {
    ca: authority.ca,
    origin: (subject) => origins[apart.has(subject) ? 1 : 0] as string,
    subjects,
    wrong,
    doubts,
    add(keyId, type, stable, own = false) {
      const made = makeSubject(subjects.length, keyId, type, stable);
      if (own) apart.add(made);
      subjects.push(made);
      return made;
    },
    requests: () => requests,
    lastAt: () => lastAt,
    calm() {
      for (const subject of subjects) if (subject.moody > 0) subject.mood = "well";
    },
    async [Symbol.asyncDispose]() {
      for (const server of servers) {
        server.closeAllConnections();
        await new Promise((done) => server.close(done));
      }
    },
  };
}
