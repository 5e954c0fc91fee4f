/** The mail transport hands each delivery to an SMTP server, as a mail to an address that the config allows. */
import type { Transporter } from "nodemailer";
import { unknownOptions } from "../../core/model/field-errors.ts";
import { isSecretOption, type SecretOption } from "../../core/model/secret-option.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import type { Reply, Transport } from "../../core/ports/transport.ts";
import { busTransport } from "./buses/bus-transport.ts";
import { destinations, nameProblems, type Destination, type OptionProblem } from "./buses/destination.ts";
import { BusFault } from "./buses/fault.ts";
import { clientProblems, loadClient } from "./buses/load.ts";
import { confirmed, refused, refusedBy, timedOut, unavailable } from "./buses/replies.ts";
import { Sends } from "./buses/sends.ts";
import { readTls, tlsFileProblems, tlsProblems, type TlsFiles } from "./buses/tls-files.ts";
import { headersOf, writtenOf } from "./mail/message.ts";

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

const OWN: readonly (keyof MailOptions)[] = [
  ...(["name", "server", "from", "to", "user", "password"] as const),
  ...(["tls", "starttls"] as const),
];

const PACKAGES = ["nodemailer"];
const DOMAIN = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*";
const ADDRESS = new RegExp(`^([A-Za-z0-9_][A-Za-z0-9._+-]{0,63}@${DOMAIN})$`);
const ALLOWED = new RegExp(`^(?:\\*|[A-Za-z0-9_][A-Za-z0-9._+-]{0,63})@${DOMAIN}$`);
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

/**
 * Delivers to `mail:` URLs: `mail://<name>/ops@example.com` is a mail to that address, if `to` allows it. What the server
 * has taken is delivered; what it does with the mail afterwards is not known. `Message-ID` is the same in each attempt of
 * a cycle. The exact body is attached, and the relay's own headers are headers of the mail. Needs the package
 * `nodemailer`.
 */
export const toMail = (options: MailOptions): Plugin<"transport", Transport> => ({
  kind: "transport",
  name: `mail:${options?.name}`,
  problems: [...problemsOf(options ?? {}), ...unknownOptions(options ?? {}, OWN)],
  secrets: { password: options?.password },
  fileProblems: (configDir) => tlsFileProblems(`mail:${options?.name}`, options?.tls, configDir),
  async setup({ clock, configDir, log, secret }) {
    const { name, from, server, user, starttls = true } = options;
    const createTransport = await loadClient(
      "toMail",
      PACKAGES,
      async () => (await import("nodemailer")).createTransport,
    );
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
        return confirmed(String(response));
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
  },
});

function problemsOf(options: Partial<MailOptions>): readonly OptionProblem[] {
  const { name, server, from, to, user, password, starttls = true } = options;
  const problems = [...nameProblems(name), ...clientProblems("toMail", PACKAGES), ...tlsProblems(options.tls)];
  const add = (path: string, message: string): void => void problems.push({ path, message });
  const url = typeof server === "string" && !/\s/.test(server) ? URL.parse(server) : null;
  const plain = url !== null && `${url.username}${url.password}${url.search}${url.hash}` === "";
  if (url === null || !plain || !/^smtps?:$/.test(url.protocol) || url.hostname === "" || !/^\/?$/.test(url.pathname))
    add("server", "must be smtp://host:port or smtps://host:port, without a login");
  if (typeof from !== "string" || !ADDRESS.test(from)) add("from", "must be an address, such as relay@example.com");
  const list: readonly unknown[] = Array.isArray(to) ? to : [];
  if (list.length === 0 || !list.every((one) => typeof one === "string" && ALLOWED.test(one)))
    add("to", "must be a list of addresses, such as ops@example.com or *@example.com");
  if ((user === undefined) !== (password === undefined)) add("password", "user and password go together");
  if (user !== undefined && (typeof user !== "string" || user === "")) add("user", "must be text");
  if (password !== undefined && !isSecretOption(password)) add("password", "must be text, or secretFrom(…)");
  if (typeof starttls !== "boolean") add("starttls", "must be true or false");
  else if (!starttls && password !== undefined && url?.protocol === "smtp:")
    add("starttls", "must not be false with a password: it would be sent in clear");
  return problems;
}
