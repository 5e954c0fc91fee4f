/** `relay tail`: prints events, attempts and changes of an API key as they happen. */
import { type CliEnvironment, paint } from "../support/environment.ts";
import { keyPath } from "../support/ask.ts";
import { openApi } from "../support/client.ts";
import { API_OPTIONS, type Command, type Given, JSON_OPTION, KEY_OPTION } from "../support/command.ts";
import { EX_OK, EX_TEMPFAIL, EX_UNAVAILABLE, ExitError } from "../support/exit.ts";
import { jsonIn, objectOf } from "../support/inputs.ts";
import { attemptName, printable, textOf } from "../support/output.ts";

interface Message {
  readonly event: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** A new stream replaces the old one this often, ms: a token signed here lasts for a minute. */
const RENEW_MS = 45_000;
/** Time between two tries to reach a relay that cannot be reached, ms. */
const AGAIN_MS = 1_000;
const BREATH_MS = 100;
/** Ids remembered, so that a message of both streams is printed once. */
const REMEMBERED = 1_000;
/** A longer message does not come from a relay. */
const LONGEST = 1_000_000;

const tail: Command = {
  usage: "tail",
  about: "follow what happens on a key: events, attempts, changes",
  options: { ...KEY_OPTION, "--count <n>": "end after so many lines", ...JSON_OPTION, ...API_OPTIONS },
  examples: ["relay tail --key key_1", "relay tail --key key_1 --json | jq .statusCode"],
  async run(given, io) {
    // Waits between streams must not let the process end.
    const { port1: alive } = new MessageChannel();
    alive.ref();
    try {
      await follow(given, io);
      return EX_OK;
    } finally {
      alive.close();
    }
  },
};

/** Resolves when enough was printed. @throws ExitError when the relay was never there, or refuses us */
async function follow(given: Given, io: CliEnvironment): Promise<void> {
  const path = keyPath(given, "stream");
  const api = await openApi(given, io);
  let left = given.whole("count", 1, 1_000_000_000) ?? Number.POSITIVE_INFINITY;
  const enough = Promise.withResolvers<void>();
  const isNew = onlyOnce();
  const show = (message: Message): void => {
    if (left <= 0 || !isNew(message)) return;
    const { event, data } = message;
    io.print(given.flag("json") ? printable(JSON.stringify({ event, ...data })) : line(message, io));
    if (--left <= 0) enough.resolve();
  };
  let current: AbortController | undefined;
  let lost = false;
  while (left > 0) {
    const next = new AbortController();
    try {
      const stream = await api.follow(path, "text/event-stream", next.signal);
      if (current === undefined) io.say(`relay: following ${given.key()}; Ctrl-C ends it`);
      if (lost) io.say("relay: it is back");
      lost = false;
      // The new stream is open before the old one closes, so that no message is lost between them.
      current?.abort();
      current = next;
      const renew = io.clock.sleep(io.clock.now() + RENEW_MS, next.signal).catch(() => undefined);
      const ended = pump(stream, show).then(() => true);
      // A relay that is stopping ends each stream at once: it is not asked again without a pause.
      if ((await Promise.race([ended, enough.promise, renew])) === true && left > 0) await rest(io, BREATH_MS);
    } catch (error) {
      // A relay that answered before may come back.
      if (current === undefined || !(error instanceof ExitError) || !PASSING.has(error.exitCode)) throw error;
      if (!lost) io.say("relay: it went away; waiting for it");
      lost = true;
      await rest(io, AGAIN_MS);
    }
  }
  current?.abort();
}

const rest = ({ clock }: CliEnvironment, ms: number): Promise<void> => clock.sleep(clock.now() + ms);

const PASSING: ReadonlySet<number> = new Set([EX_UNAVAILABLE, EX_TEMPFAIL]);

/** Reads messages (https://html.spec.whatwg.org/multipage/server-sent-events.html) until the stream ends. Never rejects. */
async function pump(stream: ReadableStream<Uint8Array>, show: (message: Message) => void): Promise<void> {
  let rest = "";
  try {
    const decoder = new TextDecoder();
    for await (const part of stream) {
      rest += decoder.decode(part, { stream: true });
      const messages = rest.split("\n\n");
      rest = messages.pop() as string;
      for (const message of messages.map(read)) if (message !== undefined) show(message);
      if (rest.length > LONGEST) return;
    }
  } catch {
    // The stream was cut off, here or by the relay: the caller opens the next one.
  }
}

function read(text: string): Message | undefined {
  const lines = text.split("\n");
  const field = (name: string): string | undefined =>
    lines.find((one) => one.startsWith(`${name}: `))?.slice(name.length + 2);
  const event = field("event");
  const data = objectOf(jsonIn(field("data") ?? ""));
  return event === undefined || data === undefined ? undefined : { event, data };
}

/** Returns a function that is true for a message that is new. Changes of a subscription have no id of their own and pass always. */
function onlyOnce(): (message: Message) => boolean {
  const ids = new Set<string>();
  return ({ event, data }) => {
    if (event === "subscription") return true;
    const id = `${event} ${String(data["id"])}`;
    if (ids.has(id)) return false;
    ids.add(id);
    if (ids.size > REMEMBERED) ids.delete(ids.values().next().value as string);
    return true;
  };
}

function line({ event, data }: Message, { stdout, clock }: CliEnvironment): string {
  const text = (name: string): string => printable(textOf(data[name] ?? ""));
  const time =
    [text("startedAt"), text("acceptedAt"), new Date(clock.now()).toISOString()].find((at) => at !== "") ?? "";
  const head = `${time.slice(11, 23)}  ${printable(event).padEnd(12)}`;
  switch (event) {
    case "event":
      return `${head}  ${text("id")}  ${text("type")}  ${text("deliveries")} deliveries`;
    case "attempt": {
      const status = text("status");
      const style = status === "delivered" ? "green" : status === "pending" ? "yellow" : "red";
      const detail = text("detail") && ` (${text("detail")})`;
      const result = text("statusCode") || `${text("error")}${detail}`;
      const next = data["nextAttemptAt"] === undefined ? "" : `  next ${text("nextAttemptAt").slice(11, 19)}`;
      const said = paint(stdout, style, `${result} ${status}`);
      return `${head}  ${text("eventId")}  ${text("subscriptionId")}  attempt ${attemptName(text("cycle"), text("number"))}  ${said}  ${text("durationMs")} ms${next}`;
    }
    default:
      return `${head}  ${text("id")}`;
  }
}

export const commands: readonly Command[] = [tail];
