/** `relay listen`: a TLS receiver on this machine that checks signatures and prints what arrives. */
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join, resolve } from "node:path";
import type { CliEnvironment } from "../support/environment.ts";
import { paint } from "../support/environment.ts";
import { makeAuthority, openAuthority } from "../support/certificates.ts";
import type { Authority } from "../support/certificates.ts";
import type { Command } from "../support/command.ts";
import { EX_OK, EX_UNAVAILABLE, ExitError, usage } from "../support/exit.ts";
import { printable } from "../support/output.ts";
import { startReceiver } from "../support/receiver.ts";
import type { Arrival } from "../support/receiver.ts";

const HOST = "127.0.0.1";

const listen: Command = {
  usage: "listen",
  about: "receive webhooks here, over TLS: check and print them",
  options: [
    { flags: "--port <port>", about: "port to listen on, 0 for any free one (8443)" },
    {
      flags: "--secret <secret>",
      about: "secret of the subscription, or @file (it may be written later); may be given twice",
      many: true,
    },
    {
      flags: "--status <codes>",
      about: "what to answer in turn, such as 500,200; the last one stays (200)",
      many: true,
    },
    { flags: "--dir <folder>", about: "where its certificate authority is kept" },
    { flags: "--json", about: "print each delivery as a line of JSON" },
  ],
  async run(given, around) {
    const port = given.whole("port", 0, 65_535) ?? 8443;
    const named = given.list("secret") ?? [];
    const waiting = named.filter((text) => secretsOf(text, around).length === 0);
    const statuses = readStatuses(given.list("status") ?? ["200"]);
    const folder = resolve(around.cwd, given.text("dir") ?? defaultFolder(around));
    const authority = await keptAuthority(folder, around);
    let answered = 0;
    const receiver = await startReceiver({
      host: HOST,
      port,
      clock: around.clock,
      certificate: await authority.issue([HOST, "localhost", "::1"]),
      secrets: () => named.flatMap((text) => secretsOf(text, around)),
      answer: () => statuses[Math.min(answered++, statuses.length - 1)] ?? 200,
      arrived: (arrival, status) =>
        around.print(given.flag("json") ? asJson(arrival, status) : asText(arrival, status, around)),
    }).catch((error: NodeJS.ErrnoException) => {
      throw new ExitError(EX_UNAVAILABLE, `cannot listen on ${HOST}:${port} (${error.code ?? error.message})`, {
        cause: error,
      });
    });
    around.say(`relay: listening at ${receiver.origin}`);
    around.say(`relay: to let the relay call it, put this into relay.config.ts:\n`);
    around.say(`  guard: { allow: ["${HOST}:${receiver.port}"], ca: ${JSON.stringify(join(folder, "ca.pem"))} },\n`);
    around.say(`relay: then: relay subscriptions create ${receiver.origin}/hook --key key_1 --events deposit:paid`);
    if (named.length === 0) around.say("relay: signatures are not checked: give --secret");
    for (const file of waiting)
      around.say(`relay: signatures are checked as soon as ${file.slice(1)} holds the secret`);
    await stopAsked();
    await receiver.close();
    return EX_OK;
  },
};

/** Resolves at the first SIGINT or SIGTERM. */
function stopAsked(): Promise<void> {
  return new Promise((resolve) => {
    const stop = (): void => {
      process.off("SIGINT", stop).off("SIGTERM", stop);
      resolve();
    };
    process.on("SIGINT", stop).on("SIGTERM", stop);
  });
}

/**
 * The secrets that an option names. A file is read at each delivery: it may be written after the start, or again by a
 * rotation. It may hold the whole answer of `relay subscriptions create`.
 * @throws ExitError 64 when there is a file that cannot be read
 */
function secretsOf(text: string, around: CliEnvironment): readonly string[] {
  if (!text.startsWith("@")) return [text];
  try {
    return readFileSync(resolve(around.cwd, text.slice(1)), "utf8").match(/whsec_[A-Za-z0-9+/=]+/g) ?? [];
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === "ENOENT") return [];
    throw usage(`--secret names a file that cannot be read (${code ?? "unreadable"})`);
  }
}

function readStatuses(texts: readonly string[]): readonly number[] {
  const wrong = texts.find((text) => !/^[2-5]\d\d$/.test(text));
  if (wrong !== undefined) throw usage(`--status: ${wrong} is no status from 200 to 599`);
  return texts.map(Number);
}

const defaultFolder = ({ env }: CliEnvironment): string =>
  join(env["XDG_DATA_HOME"] ?? join(homedir(), ".local", "share"), "relay", "listen");

/** The authority kept in the folder, made at the first call, and again before it ends. */
async function keptAuthority(folder: string, { clock }: CliEnvironment): Promise<Authority> {
  const [caFile, keyFile] = [join(folder, "ca.pem"), join(folder, "ca-key.pem")];
  try {
    if (existsSync(caFile) && existsSync(keyFile)) {
      const { X509Certificate } = await import("node:crypto");
      const ca = readFileSync(caFile, "utf8");
      const endsAt = Date.parse(new X509Certificate(ca).validTo);
      // Its certificates are valid for 30 days.
      if (endsAt - clock.now() > 31 * 86_400_000)
        return await openAuthority(ca, readFileSync(keyFile, "utf8"), clock.now());
    }
    const authority = await makeAuthority(clock.now(), "Relay listen");
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    writeFileSync(keyFile, authority.caKey, { mode: 0o600 });
    chmodSync(keyFile, 0o600);
    writeFileSync(caFile, authority.ca);
    return authority;
  } catch (error) {
    throw new ExitError(
      EX_UNAVAILABLE,
      `cannot keep a certificate authority in ${folder}: ${(error as Error).message}`,
      {
        cause: error,
      },
    );
  }
}

const header = ({ headers }: Arrival, name: string): string => String(headers[name] ?? "");

function asText(arrival: Arrival, status: number, { stdout }: CliEnvironment): string {
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
function asJson(arrival: Arrival, status: number): string {
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

export const commands: readonly Command[] = [listen];
