/** `relay dev`: a relay, a receiver and a subscription for a developer's desk, with an event for each saved JSON file. */
import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join, relative, resolve } from "node:path";
import { causeOf, reasonOf } from "../../core/lib/reason.ts";
import { DEV_KEY, openDesk, publicationOf, type Desk } from "../local/desk.ts";
import { type Arrival, arrivalPrinter, readStatuses } from "../local/receiver.ts";
import { savedFiles, type SavedFile } from "../local/saved-files.ts";
import type { Command } from "../support/command.ts";
import type { CliEnvironment } from "../support/environment.ts";
import { EX_OK, EX_UNAVAILABLE, ExitError, usage } from "../support/exit.ts";
import { decoded } from "../support/inputs.ts";
import { withDeadline } from "../support/network.ts";
import { printable, printableLines } from "../support/output.ts";
import { stopAsked } from "../support/signals.ts";

const dev: Command = {
  usage: "dev [folder]",
  about: "run a relay and a receiver on this desk, and publish each JSON file that is saved in a folder (events)",
  options: {
    "--to <url>": "pass deliveries on to your own server, such as http://localhost:3000/hook",
    "--status <codes>": "without --to: what to answer in turn, such as 500,200; the last one stays (200)",
    "--port <port>": "port of the relay, 0 for any free one (8080)",
    "--dir <folder>": "where the relay keeps its data (.relay-dev)",
    "--json": "print each delivery as a line of JSON",
  },
  examples: ["relay dev", "relay dev payloads --to http://localhost:3000/webhooks"],
  async run(given, io) {
    const to = given.text("to");
    const target = to === undefined ? undefined : readTarget(to);
    const status = readStatuses(given.list("status"));
    const desk = await openDesk(
      {
        folder: resolve(io.cwd, given.text("dir") ?? ".relay-dev"),
        port: given.whole("port", 0, 65_535) ?? 8080,
        answer: (arrival) => (target === undefined ? status() : forward(target, arrival, io)),
        arrived: arrivalPrinter(given, io),
      },
      io,
    );
    const over = new AbortController();
    try {
      const folder = resolve(io.cwd, given.args[0] ?? "events");
      await prepareFolder(folder, io);
      const saves = await savedFiles(folder, io.clock, over.signal).catch((error: Error) => {
        throw new ExitError(EX_UNAVAILABLE, `${folder} cannot be watched: ${reasonOf(error)}`, { cause: error });
      });
      greet(desk, folder, io);
      const publishing = (async () => {
        for await (const file of saves) await publish(desk, file, io);
      })().catch((error: unknown) => `${folder} cannot be watched: ${reasonOf(error)}`);
      const ended = await Promise.race([stopAsked(), desk.ended, publishing]);
      if (typeof ended === "string") throw new ExitError(EX_UNAVAILABLE, ended);
      return EX_OK;
    } finally {
      over.abort();
      await desk.close();
    }
  },
};

/** Makes the folder with one event to begin with. */
async function prepareFolder(folder: string, io: CliEnvironment): Promise<void> {
  if (existsSync(folder)) return;
  try {
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, "order.created.json"), `{\n  "order": 1001,\n  "total": 12.50\n}\n`);
  } catch (error) {
    throw new ExitError(EX_UNAVAILABLE, `cannot make ${folder}: ${reasonOf(error)}`);
  }
  io.say(`relay: made ${folder} with order.created.json`);
}

function greet({ relayUrl, secret, tokenFile }: Desk, folder: string, { say, cwd }: CliEnvironment): void {
  say(`relay: the relay is at ${relayUrl}, its dashboard at ${relayUrl}/developers`);
  say(`relay: save a JSON file in ${relative(cwd, folder) || "."} to publish it: its name is the event type`);
  say(`relay: or: curl ${relayUrl}/events -H "Authorization: Bearer $(cat ${relative(cwd, tokenFile)})" \\`);
  say(`         --json '{"type":"order.created","keyId":"${DEV_KEY}","data":{}}'`);
  say(`relay: deliveries are signed with ${secret}`);
}

/** A file that cannot be published is named, and the next one awaited. */
async function publish(desk: Desk, { name, bytes }: SavedFile, { say }: CliEnvironment): Promise<void> {
  try {
    const { id, deliveries } = await desk.publish(publicationOf(name, decoded("it", bytes), DEV_KEY));
    const many = deliveries === 1 ? "1 delivery" : `${deliveries} deliveries`;
    say(`relay: published ${printable(name)} as ${printable(id)}, ${many}`);
  } catch (error) {
    const why = error instanceof SyntaxError ? `it is no JSON (${error.message})` : (error as Error).message;
    say(`relay: ${printable(name)} is not published: ${printableLines(why)}`);
  }
}

const TIMEOUT_MS = 20_000;
/** Of a connection, not of the message; `fetch` sets its own. */
const OWN = new Set(["host", "connection", "content-length", "transfer-encoding", "keep-alive", "expect", "upgrade"]);

/** @throws ExitError 64 */
function readTarget(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url !== undefined && ["http:", "https:"].includes(url.protocol) && url.username + url.password === "") return url;
  throw usage("--to must be an http:// or https:// URL without credentials");
}

/** Returns the status of the server; 502 when it does not answer within 20 s, which the relay tries again. */
async function forward(target: URL, arrival: Arrival, { say, clock }: CliEnvironment): Promise<number> {
  const headers = new Headers();
  for (const [name, value] of Object.entries(arrival.headers)) {
    if (value !== undefined && !OWN.has(name)) headers.set(name, String(value));
  }
  try {
    return await withDeadline(clock, TIMEOUT_MS, async (signal) => {
      const body = new Uint8Array(arrival.body);
      const answer = await fetch(target, { method: "POST", headers, body, redirect: "manual", signal });
      await answer.body?.cancel();
      return answer.status;
    });
  } catch (error) {
    say(`relay: ${target.href} does not answer: ${printable(causeOf(error))}`);
    return 502;
  }
}

export const commands: readonly Command[] = [dev];
