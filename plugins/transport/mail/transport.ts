/** The transport behind `toMail()`, loaded only where a config names it. */
import { readTls, type TlsFiles } from "../../../core/ports/tls-files.ts";
import type { SecretOption } from "../../../core/model/secret-option.ts";
import type { createTransport as CreateTransport, Transporter } from "nodemailer";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import type { Reply, Transport } from "../../../core/ports/transport.ts";
import { busTransport } from "../buses/bus-transport.ts";
import { destinations, type Destination } from "../buses/destination.ts";
import { BusFault } from "../buses/fault.ts";
import { confirmedBy, refused, refusedBy, timedOut, unavailable } from "../buses/replies.ts";
import { Sends } from "../buses/sends.ts";
import { ADDRESS } from "./address.ts";
import { headersOf, writtenOf } from "./message.ts";

export interface MailOptions {
  /** Name of the connection in URLs: `mail://<name>/ops@example.com`. */
  readonly name: string;
  /** `smtp://host:587` with STARTTLS, or `smtps://host:465`. A login is given in the options below, not here. */
  readonly server: string;
  /** The sender's address. */
  readonly from: string;
  /** Addresses that may be written to: `ops@example.com`, or `*@example.com` for all of a domain. */
  readonly to: readonly string[];
  readonly user?: string;
  readonly password?: SecretOption;
  /** Paths of PEM files. Without it the server must have a certificate that the system trusts. */
  readonly tls?: TlsFiles;
  /** `false` sends in clear over `smtp://`: for a server on the same machine. Never with a password. @default true */
  readonly starttls?: boolean;
}

const RULE = "an address that the connection may write to, such as ops@example.com";
/** How long a connection that says nothing is kept, ms: a send has ended by then. */
const SILENT_MS = 30_000;

/** What the client adds to its errors. */
interface MailError {
  readonly code?: string;
  readonly response?: string;
  readonly responseCode?: number;
  readonly command?: string;
}

export function openMail(
  options: MailOptions,
  { clock, configDir, log, secret }: PluginContext,
  createTransport: typeof CreateTransport,
): Transport {
  const { name, from, server, user, starttls = true } = options;
  const { hostname, port, protocol } = new URL(server);
  const secure = protocol === "smtps:";
  const mailer: Transporter = createTransport({
    host: hostname.replace(/^\[|\]$/g, ""),
    port: Number(port || (secure ? 465 : 587)),
    secure,
    requireTLS: !secure && starttls,
    ignoreTLS: !starttls,
    tls: { minVersion: "TLSv1.2", ...readTls(`mail:${name}`, options.tls, configDir) },
    ...(user !== undefined && { auth: { user, pass: secret("password") } }),
    connectionTimeout: SILENT_MS,
    greetingTimeout: SILENT_MS,
    socketTimeout: SILENT_MS,
    // A body is data, never the name of a file or of a page.
    disableFileAccess: true,
    disableUrlAccess: true,
  });
  const sends = new Sends(clock);
  const fault = new BusFault(clock);
  const read = destinations(`mail://${name}/`, ADDRESS, RULE);
  const allowed = new Set(options.to.map((one) => one.toLowerCase()));

  function destination(url: string): Destination {
    const found = read(url);
    if ("problem" in found) return found;
    const address = (found.parts[0] ?? "").toLowerCase();
    if (allowed.has(address) || allowed.has(`*${address.slice(address.indexOf("@"))}`)) return found;
    return { problem: `must be mail://${name}/ and ${RULE}` };
  }

  const away = (words: string): Reply => {
    if (fault.note(words)) log.warn("the mail server takes no mail", { transport: name, error: words });
    return unavailable(name);
  };

  const underWay = new Set<AbortController>();

  /** Ends the connection of a mail whose time is over, shortly after its send has got that reply. */
  async function within<T>(ms: number, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const [late, over] = [new AbortController(), new AbortController()];
    underWay.add(late);
    clock.sleep(clock.now() + ms + 1_000, over.signal).then(
      () => late.abort(),
      () => undefined,
    );
    try {
      return await work(late.signal);
    } finally {
      over.abort();
      underWay.delete(late);
    }
  }

  return busTransport({
    scheme: "mail",
    name,
    destination,
    sends,
    readiness: () => fault.words(),
    async publish([to = ""], request) {
      const { body, messageId, timeoutMs } = request;
      const { subject, text } = writtenOf(request);
      const { response } = await within(timeoutMs, (signal) =>
        mailer.sendMail({
          ...{ from, to, subject, text },
          messageId: `<${messageId}@${from.slice(from.indexOf("@") + 1)}>`,
          date: new Date(clock.now()),
          headers: { ...headersOf(request), "Auto-Submitted": "auto-generated" },
          attachments: [{ filename: "event.json", content: Buffer.from(body), contentType: "application/json" }],
          signal,
        }),
      );
      fault.clear();
      return confirmedBy(String(response));
    },
    failed(error) {
      const { code, response, responseCode, command = "" } = error as MailError;
      if (code === "EABORT") return timedOut(SILENT_MS);
      // The server has answered about this mail; another one may be taken.
      if (responseCode !== undefined && /^(?:MAIL FROM|RCPT TO|DATA)/.test(command))
        return refusedBy(`the mail server says: ${response ?? responseCode}`);
      if (code === "EENVELOPE" || code === "EMESSAGE") return refused((error as Error).message);
      return away(`${code ?? "failed"}${responseCode === undefined ? "" : ` ${responseCode}`}`);
    },
    close() {
      for (const one of underWay) one.abort();
      mailer.close();
    },
  });
}
