/** The transport behind `toMail()`, loaded only where a config names it. */
import type { createTransport as CreateTransport, Transporter } from "nodemailer";
import type { SecretOption } from "../../../core/model/secret-option.ts";
import type { PluginContext } from "../../../core/ports/plugin.ts";
import { readTls, type TlsFiles } from "../../../core/ports/tls-files.ts";
import type { Reply, TransportRequest } from "../../../core/ports/transport.ts";
import { Bus } from "../buses/bus.ts";
import { confirmedBy, refused, refusedBy, unavailable } from "../buses/replies.ts";
import type { Sending } from "../buses/sending.ts";
import { LOCAL_PART } from "./address.ts";
import { headersOf, writtenOf } from "./message.ts";

export interface MailOptions {
  /** Its name in URLs: `mail://<name>/ops@example.com`. */
  readonly name: string;
  /** `smtp://host:587` with STARTTLS, or `smtps://host:465`, without a login. */
  readonly server: string;
  /** The sender's address. */
  readonly from: string;
  /** Addresses that may be written to: `ops@example.com`, or `*@example.com` for a domain. */
  readonly to: readonly string[];
  readonly user?: string;
  readonly password?: SecretOption;
  /** Paths of PEM files. Without it the system's authorities count. */
  readonly tls?: TlsFiles;
  /** `false` sends in clear over `smtp://`, never with a password: for a server on the same machine. @default true */
  readonly starttls?: boolean;
}

const RULE = "an address that the connection may write to, such as ops@example.com";
/** How long a connection that says nothing is kept, ms: a send has ended by then. */
const SILENT_MS = 30_000;

interface MailError extends Error {
  readonly code?: string;
  readonly response?: string;
  readonly responseCode?: number;
  readonly command?: string;
}

export class MailTransport extends Bus {
  readonly #from: string;
  readonly #mailer: Transporter;

  constructor(options: MailOptions, context: PluginContext, createTransport: typeof CreateTransport) {
    const { name, from, to } = options;
    const pattern = allowedPattern(to);
    super({ scheme: "mail", name, system: "the mail server", takes: "mail", pattern, rule: RULE }, context);
    this.#from = from;
    this.#mailer = createTransport(serverOf(options, context));
  }

  protected async publish([to = ""]: readonly string[], request: TransportRequest, { over }: Sending): Promise<Reply> {
    const { body, messageId } = request;
    const from = this.#from;
    const { subject, text } = writtenOf(request);
    const { response } = await this.#mailer.sendMail({
      ...{ from, to, subject, text },
      messageId: `<${messageId}@${from.slice(from.indexOf("@") + 1)}>`,
      date: new Date(this.clock.now()),
      headers: { ...headersOf(request), "Auto-Submitted": "auto-generated" },
      attachments: [{ filename: "event.json", content: Buffer.from(body), contentType: "application/json" }],
      // A mail whose time is over leaves no connection behind.
      signal: over,
    });
    return confirmedBy(String(response));
  }

  protected failed(error: unknown): Reply {
    const { code, response, responseCode, command = "", message } = error as MailError;
    // The send has ended: nobody learns of this.
    if (code === "EABORT") return unavailable(this.name);
    // The server has answered about this mail; another one may be taken.
    if (responseCode !== undefined && /^(?:MAIL FROM|RCPT TO|DATA)/.test(command))
      return refusedBy(`the mail server says: ${response ?? responseCode}`);
    if (code === "EENVELOPE" || code === "EMESSAGE") return refused(message);
    return this.takesNothing(`${code ?? "failed"}${responseCode === undefined ? "" : ` ${responseCode}`}`);
  }

  protected close(): void {
    this.endSends();
    this.#mailer.close();
  }
}

/** Matches the addresses that may be written to, in any case. @param to as the option is: checked */
const allowedPattern = (to: readonly string[]): RegExp =>
  new RegExp(`^(${to.map((one) => RegExp.escape(one).replace(/^\\\*/, LOCAL_PART)).join("|")})$`, "i");

/** Returns the server as the client takes it. @throws StartError 78 when a file cannot be read */
function serverOf({ name, server, user, starttls = true, tls }: MailOptions, { configDir, secret }: PluginContext) {
  const { hostname, port, protocol } = new URL(server);
  const secure = protocol === "smtps:";
  return {
    host: hostname.replace(/^\[|\]$/g, ""),
    port: Number(port || (secure ? 465 : 587)),
    secure,
    requireTLS: !secure && starttls,
    ignoreTLS: !starttls,
    tls: { minVersion: "TLSv1.2" as const, ...readTls(`mail:${name}`, tls, configDir) },
    ...(user !== undefined && { auth: { user, pass: secret("password") } }),
    connectionTimeout: SILENT_MS,
    greetingTimeout: SILENT_MS,
    socketTimeout: SILENT_MS,
    // A body is data, never the name of a file or of a page.
    disableFileAccess: true,
    disableUrlAccess: true,
  };
}
