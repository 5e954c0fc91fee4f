/** Prints the deliveries that arrive at a local receiver, and reads which statuses it answers with. */
import { paint, type CliEnvironment } from "./environment.ts";
import { usage } from "./exit.ts";
import { printable } from "./output.ts";
import type { Arrival } from "./receiver.ts";

/** Reads the codes of `--status`. @throws ExitError 64 */
export function readStatuses(texts: readonly string[]): readonly number[] {
  const wrong = texts.find((text) => !/^[2-5]\d\d$/.test(text));
  if (wrong !== undefined) throw usage(`--status: ${wrong} is no status from 200 to 599`);
  return texts.map(Number);
}

const header = ({ headers }: Arrival, name: string): string => String(headers[name] ?? "");

export function arrivalText(arrival: Arrival, status: number, { stdout }: CliEnvironment): string {
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
export function arrivalJson(arrival: Arrival, status: number): string {
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
