/** Prints the deliveries that arrive at a local receiver, and reads which statuses it answers with. */
import type { Given } from "../support/command.ts";
import { paint, type CliEnvironment } from "../support/environment.ts";
import { usage } from "../support/exit.ts";
import { printable } from "../support/output.ts";
import type { Arrival } from "./receiver.ts";

/** Returns what gives the codes of `--status` in turn; the last one stays. @throws ExitError 64 */
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
