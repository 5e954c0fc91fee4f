/** Receives webhooks over TLS for `listen`, `dev` and `demo`: checks every signature, and reports or prints each request. */
import { createServer } from "node:https";
import type { IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { verifyHex, verifyStandard } from "../../core/signing/verify.ts";
import type { Clock } from "../../core/ports/clock.ts";
import type { KeyPair } from "../support/certificates.ts";
import type { Given } from "../support/command.ts";
import { paint, type CliEnvironment } from "../support/environment.ts";
import { usage } from "../support/exit.ts";
import { readWhole } from "../support/inputs.ts";
import { printable } from "../support/output.ts";

/** `unchecked`: there was no secret to check with. */
type SignatureVerdict = "verified" | "refused" | "unchecked";

export interface Arrival {
  /** Epoch ms. */
  readonly at: number;
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /** The body, byte for byte. */
  readonly body: Buffer;
  readonly verdict: SignatureVerdict;
  /** 1…5; 0 when the request does not say. */
  readonly attempt: number;
}

export interface ReceiverOptions {
  readonly host: string;
  /** 0 asks for any free port. */
  readonly port: number;
  readonly certificate: KeyPair;
  readonly clock: Clock;
  /** Secrets that may have signed what arrives at a path. */
  secrets(path: string): readonly string[];
  /** Returns the status to answer with. It must not throw. */
  answer(arrival: Arrival): number | Promise<number>;
  /** Called after each answer was decided. */
  arrived(arrival: Arrival, status: number): void;
}

/** More than any delivery: an event has at most 256 KiB. */
const MOST_MIB = 1;

/** @throws Error of node:net when it cannot listen */
export async function startReceiver(options: ReceiverOptions) {
  const { certificate, host, port, clock } = options;
  const server = createServer(certificate, (request, response) => {
    const whole = readWhole(request, MOST_MIB, "the body").catch(() => undefined);
    void whole.then(async (body) => {
      // Too large, or its sender has closed the connection.
      if (body === undefined) return void response.writeHead(413, { connection: "close" }).end();
      const path = request.url ?? "/";
      const verdict = judge(body, request.headers, options.secrets(path), clock.now());
      const arrival: Arrival = {
        at: clock.now(),
        method: request.method ?? "",
        path,
        headers: request.headers,
        body,
        verdict,
        attempt: Number(request.headers["x-relay-attempt"] ?? 0) || 0,
      };
      const status = verdict === "refused" ? 401 : await options.answer(arrival);
      options.arrived(arrival, status);
      response.writeHead(status).end();
    });
  });
  await new Promise<void>((resolve, reject) => void server.once("error", reject).listen(port, host, resolve));
  const { port: bound } = server.address() as AddressInfo;
  return {
    port: bound,
    origin: `https://${host.includes(":") ? `[${host}]` : host}:${bound}`,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** Both kinds of signature headers must be right. */
function judge(body: Buffer, headers: IncomingHttpHeaders, secrets: readonly string[], now: number): SignatureVerdict {
  if (secrets.length === 0) return "unchecked";
  const good = secrets.some((secret) => verifyHex(body, headers, secret) && verifyStandard(body, headers, secret, now));
  return good ? "verified" : "refused";
}

/** Returns a function that gives the codes of `--status` in turn; the last one stays. @throws ExitError 64 */
export function readStatuses(texts: readonly string[] = ["200"]): () => number {
  const wrong = texts.find((text) => !/^[2-5]\d\d$/.test(text));
  if (wrong !== undefined) throw usage(`--status: ${wrong} is no status from 200 to 599`);
  let answered = 0;
  return () => Number(texts[Math.min(answered++, texts.length - 1)]);
}

/** Prints each delivery, as a line of JSON with `--json`. */
export const arrivalPrinter =
  (given: Given, io: CliEnvironment) =>
  (arrival: Arrival, status: number): void =>
    io.print(given.flag("json") ? arrivalJson(arrival, status) : arrivalText(arrival, status, io));

const header = ({ headers }: Arrival, name: string): string => String(headers[name] ?? "");

function arrivalText(arrival: Arrival, status: number, { stdout }: CliEnvironment): string {
  const { verdict, attempt } = arrival;
  const colour = verdict === "verified" ? "green" : verdict === "refused" ? "red" : "yellow";
  const words = { verified: "signature verified", refused: "SIGNATURE WRONG", unchecked: "signature not checked" };
  const head = [
    new Date(arrival.at).toISOString(),
    header(arrival, "x-relay-event") || `${arrival.method} ${arrival.path}`,
    header(arrival, "webhook-id"),
    attempt > 0 ? `attempt ${attempt}` : "",
  ].filter((part) => part !== "");
  const replay = header(arrival, "x-relay-replay");
  if (replay !== "") head.push(`replay ${replay}`);
  const body = arrival.body.toString("utf8");
  return `${printable(head.join("  "))}  ${paint(stdout, colour, words[verdict])}  answered ${status}\n  ${printable(body)}`;
}

/** One line, with control characters escaped as JSON has it. */
function arrivalJson(arrival: Arrival, status: number): string {
  const line = JSON.stringify({
    at: new Date(arrival.at).toISOString(),
    event: header(arrival, "x-relay-event") || undefined,
    id: header(arrival, "webhook-id") || undefined,
    attempt: arrival.attempt || undefined,
    replay: header(arrival, "x-relay-replay") || undefined,
    signature: arrival.verdict,
    answered: status,
    method: arrival.method,
    path: arrival.path,
    headers: arrival.headers,
    body: arrival.body.toString("utf8"),
  });
  return printable(line);
}
