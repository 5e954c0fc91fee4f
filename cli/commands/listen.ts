/** `relay listen`: a TLS receiver on this machine that checks signatures and prints what arrives. */
import { existsSync, readFileSync } from "node:fs";
import { homedir } from "node:os";
import { isAbsolute, join, resolve } from "node:path";
import { SECRET_FORM } from "../../core/model/signing-secret.ts";
import { reasonOf } from "../../core/lib/reason.ts";
import type { CliEnvironment } from "../support/environment.ts";
import { arrivalPrinter, readStatuses, startReceiver } from "../local/receiver.ts";
import { keptAuthority } from "../support/certificates.ts";
import type { Command } from "../support/command.ts";
import { EX_UNAVAILABLE, ExitError, usage } from "../support/exit.ts";
import { unreadable } from "../support/inputs.ts";
import { stopAsked } from "../support/signals.ts";

const HOST = "127.0.0.1";

const listen: Command = {
  usage: "listen",
  about: "receive webhooks here, over TLS: check and print them",
  options: {
    "--port <port>": "port to listen on, 0 for any free one (8443)",
    "--secret <secret>": "secret of the subscription, or @file (it may be written later); may be given twice",
    "--status <codes>": "what to answer in turn, such as 500,200; the last one stays (200)",
    "--dir <folder>": "where its certificate authority is kept",
    "--json": "print each delivery as a line of JSON",
  },
  async run(given, io) {
    const port = given.whole("port", 0, 65_535) ?? 8443;
    const named = given.list("secret") ?? [];
    const waiting = named.filter((text) => secretsOf(text, io).length === 0);
    const answer = readStatuses(given.list("status"));
    const folder = resolve(io.cwd, given.text("dir") ?? defaultFolder(io));
    const authority = await keptAuthority(folder, io);
    const receiver = await startReceiver({
      host: HOST,
      port,
      clock: io.clock,
      certificate: await authority.issue([HOST, "localhost", "::1"]),
      secrets: () => named.flatMap((text) => secretsNow(text, io)),
      answer,
      arrived: arrivalPrinter(given, io),
    }).catch((error: unknown) => {
      const message = `cannot listen on ${HOST}:${port}: ${reasonOf(error)}`;
      throw new ExitError(EX_UNAVAILABLE, message, { cause: error });
    });
    io.say(`relay: listening at ${receiver.origin}`);
    io.say(`relay: to let the relay call it, put this into relay.config.ts:\n`);
    io.say(`  guard: { allow: ["${HOST}:${receiver.port}"], ca: ${JSON.stringify(join(folder, "ca.pem"))} },\n`);
    io.say(`relay: then: relay subscriptions create ${receiver.origin}/hook --key key_1 --events deposit:paid`);
    if (named.length === 0) io.say("relay: signatures are not checked: give --secret");
    for (const file of waiting) io.say(`relay: signatures are checked as soon as ${file.slice(1)} holds the secret`);
    await stopAsked();
    await receiver.close();
  },
};

/**
 * Returns the secrets that an option names. A file is read at each delivery: it may be written after the start, or again by a
 * rotation. It may hold the whole answer of `relay subscriptions create`.
 * @throws ExitError 64 when there is a file that cannot be read, or what is given is neither `@file` nor a secret
 */
function secretsOf(text: string, io: CliEnvironment): readonly string[] {
  if (!text.startsWith("@")) {
    if (SECRET_FORM.test(text)) return [text];
    // Taken for a secret, the path would make every signature wrong. What is no file may be a secret, and is not repeated.
    if (existsSync(resolve(io.cwd, text))) throw usage(`--secret ${text} is a file: write --secret @${text}`);
    throw usage("--secret takes @file, or a secret itself: whsec_ and then base64");
  }
  try {
    return readFileSync(resolve(io.cwd, text.slice(1)), "utf8").match(/whsec_[A-Za-z0-9+/=]+/g) ?? [];
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw unreadable("--secret names a file that", error);
  }
}

/** Does the same while deliveries arrive: a file that can no longer be read is named, and ends nothing. */
function secretsNow(text: string, io: CliEnvironment): readonly string[] {
  try {
    return secretsOf(text, io);
  } catch (error) {
    io.say(`relay: ${(error as Error).message}`);
    return [];
  }
}

/** Under the folder for a user's data, which counts only where it is an absolute path (XDG Base Directory). */
const defaultFolder = ({ env }: CliEnvironment): string => join(dataHome(env["XDG_DATA_HOME"]), "relay", "listen");
const dataHome = (named = ""): string => (isAbsolute(named) ? named : join(homedir(), ".local", "share"));

export const commands: readonly Command[] = [listen];
