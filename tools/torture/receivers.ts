// Hostile receivers over real TLS, and a book of all they were sent.
import { createHash, createHmac } from "node:crypto";
import { createServer } from "node:https";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { makeAuthority } from "../../core/cli/certificates.ts";
import type { Random } from "./random.ts";

export type Mood = "well" | "failing" | "slow" | "hanging" | "forgetful" | "busy" | "torn" | "wild";
export const MOODS: readonly Mood[] = [
  "well",
  "well",
  "failing",
  "slow",
  "hanging",
  "forgetful",
  "busy",
  "torn",
  "wild",
];

/** What one receiver knows of one event. */
export interface Entry {
  /** Of the body, the same each time. */
  readonly sha: string;
  /** It was answered with success. */
  taken: boolean;
  /** Requests by cycle and number: `0/1` → how many. */
  readonly requests: Map<string, number>;
}

export interface Receivers extends AsyncDisposable {
  readonly ca: string;
  readonly origin: string;
  /** By receiver. */
  readonly moods: Mood[];
  readonly secrets: string[];
  /** By receiver, then event id. */
  readonly books: readonly Map<string, Entry>[];
  /** What no honest relay sends, a line each. */
  readonly wrong: string[];
  requests(): number;
  calm(): void;
}

const SLOW_MS = 900;

export async function openReceivers(count: number, random: Random): Promise<Receivers> {
  const authority = await makeAuthority(Date.now(), "Relay torture CA");
  const { cert, key } = await authority.issue(["127.0.0.1"]);
  const moods = Array.from({ length: count }, (): Mood => "well");
  const secrets: string[] = [];
  const books = Array.from({ length: count }, () => new Map<string, Entry>());
  const wrong: string[] = [];
  let requests = 0;

  function note(index: number, request: IncomingMessage, body: Buffer): Entry {
    requests++;
    const { headers } = request;
    const id = String(headers["webhook-id"]);
    const sha = createHash("sha256").update(body).digest("base64");
    const signature = createHmac("sha256", secrets[index] ?? "")
      .update(body)
      .digest("hex");
    if (headers["x-relay-webhook-signature"] !== signature) wrong.push(`${id}: a wrong signature at ${index}`);
    const number = Number(headers["x-relay-attempt"]);
    if (!(number >= 1 && number <= 5)) wrong.push(`${id}: attempt ${number} at ${index}`);
    const book = books[index] as Map<string, Entry>;
    let entry = book.get(id);
    if (entry === undefined) book.set(id, (entry = { sha, taken: false, requests: new Map() }));
    if (entry.sha !== sha) wrong.push(`${id}: two bodies at ${index}`);
    const turn = `${String(headers["x-relay-replay"] ?? 0)}/${number}`;
    entry.requests.set(turn, (entry.requests.get(turn) ?? 0) + 1);
    return entry;
  }

  function answer(mood: Mood, entry: Entry, response: ServerResponse): void {
    const end = (status: number, headers: Record<string, string> = {}): void => {
      if (status < 300) entry.taken = true;
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
        response.socket?.destroy();
        return;
      case "busy":
        return end(random.pick([429, 503]), { "retry-after": "1" });
      case "torn":
        // Complete headers are success, whatever the body does after.
        entry.taken = true;
        response.writeHead(200, { "content-length": "100" });
        response.write("half");
        setTimeout(() => response.socket?.destroy(), 20).unref();
        return;
      case "wild":
        return answer(random.pick(MOODS), entry, response);
    }
  }

  const server = createServer({ cert, key, keepAlive: true }, (request, response) => {
    const parts: Buffer[] = [];
    request.on("error", () => undefined);
    response.on("error", () => undefined);
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      const index = Number(request.url?.slice(1));
      answer(moods[index] ?? "well", note(index, request, Buffer.concat(parts)), response);
    });
  });
  server.on("tlsClientError", () => undefined);
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const { port } = server.address() as AddressInfo;
  return {
    ca: authority.ca,
    origin: `https://127.0.0.1:${port}`,
    moods,
    secrets,
    books,
    wrong,
    requests: () => requests,
    calm: () => void moods.fill("well"),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
    },
  };
}
