/** An SMTP server on real sockets and real TLS. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { toMail } from "../../../plugins/transport/mail.ts";
import type { MailOptions } from "../../../plugins/transport/mail/transport.ts";
import { atLeast, type BusHarness, type FarBus } from "../bus-laws.ts";
import { testAuthority } from "../certificates.ts";
import { SILENCE, startSmtp } from "../smtp.ts";

const folder = mkdtempSync(join(tmpdir(), "relay-mail-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));

export const mailOptions = (at: string): MailOptions => ({
  name: "bus",
  server: `smtp://localhost:${at.split(":")[1]}`,
  from: "relay@example.org",
  to: ["*@example.com"],
  tls: { caFile: join(folder, "ca.pem") },
});

const right = { server: "smtp://mail.example.com:587", from: "relay@example.com", to: ["*@example.com"] };
const login = { user: "relay", password: "s3cret" };

export const mailBus: BusHarness<FarBus> = {
  system: "a mail server",
  make: toMail,
  options: mailOptions,
  everyOption: { ...right, ...login, name: "bus", tls: { caFile: "ca" }, starttls: true },
  wrongOptions: [
    [{}, "server", "from", "to"],
    [{ ...right, server: "smtp://u:s3cret@mail" }, "server"],
    [{ ...right, to: ["*"], from: "Relay <relay@example.com>" }, "from", "to"],
    [{ ...right, user: "relay" }, "password"],
    [{ ...right, ...login, starttls: false }, "starttls"],
    [{ ...right, password: { env: "X" }, user: "relay" }, "password"],
  ],
  urls: {
    rule: "an address",
    right: ["alice@example.com", "Anyone@Example.com"],
    wrong: [
      ...["", "alice@example.net", "alice@example.com,eve@example.net", "alice@example.com.", "x@sub.example.com"],
      ...["alice@example.com%0d%0aRCPT TO:<eve@example.net>", "eve@example.net?alice@example.com"],
    ],
  },
  cannot: {
    headers: "a mail has headers of its own, and those of the relay are tried below",
    away: "no connection is kept, and a server that is not there is tried below",
  },
  place: /^200 250 2\.0\.0 queued as 42$/,
  refused: ["mail://bus/alice@example.net", /^error the URL must be /],
  async start() {
    writeFileSync(join(folder, "ca.pem"), (await testAuthority()).ca);
    const smtp = await startSmtp();
    return {
      at: `127.0.0.1:${smtp.port}`,
      destination: (name) => Promise.resolve(`mail://bus/${name}@example.com`),
      arrived: (url, least) =>
        atLeast(least, () =>
          smtp.mails
            .filter(({ to }) => url.endsWith(`/${to}`))
            .map(({ attached, headers }) => ({ body: attached, headers })),
        ),
      // The protocol is a conversation: the server falls silent when it has the mail.
      hang: (on) => void (smtp.answers = on ? { ".": SILENCE } : {}),
      [Symbol.asyncDispose]: () => smtp[Symbol.asyncDispose](),
    };
  },
};
