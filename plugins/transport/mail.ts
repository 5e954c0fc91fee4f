/** The mail transport hands each delivery to an SMTP server, as a mail to an address that the config allows. */
import type { FieldError } from "../../core/model/problem.ts";
import { flag, must, optional, secret, text, texts } from "../../core/ports/options.ts";
import { loadPackages, packageProblems } from "../../core/ports/optional-package.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import { tlsRule } from "../../core/ports/tls-files.ts";
import type { Transport } from "../../core/ports/transport.ts";
import { busPlugin } from "./buses/plugin.ts";
import { DOMAIN, LOCAL_PART } from "./mail/address.ts";
import type { MailOptions } from "./mail/transport.ts";

const PACKAGES = ["nodemailer"];
const ADDRESS = new RegExp(`^${LOCAL_PART}@${DOMAIN}$`);
const ALLOWED = new RegExp(`^(?:\\*|${LOCAL_PART})@${DOMAIN}$`);

const SERVER = must("must be smtp://host:port or smtps://host:port, without a login", (server) => {
  const url = typeof server === "string" && !/\s/.test(server) ? URL.parse(server) : null;
  if (url === null || !/^smtps?:$/.test(url.protocol) || url.hostname === "" || !/^\/?$/.test(url.pathname))
    return false;
  return `${url.username}${url.password}${url.search}${url.hash}` === "";
});

/** A login has both parts, and is never sent in clear. */
function loginProblems({ user, password, server, starttls }: Partial<MailOptions>): readonly FieldError[] {
  const found: FieldError[] = [];
  if ((user === undefined) !== (password === undefined))
    found.push({ path: "password", message: "user and password go together" });
  if (starttls === false && password !== undefined && URL.parse(String(server))?.protocol === "smtp:")
    found.push({ path: "starttls", message: "must not be false with a password: it would be sent in clear" });
  return found;
}

/**
 * Delivers to `mail:` URLs: `mail://<name>/ops@example.com` is a mail to that address, if `to` allows it. What the server
 * has taken is delivered; what it does with the mail afterwards is not known. `Message-ID` is the same in each attempt of
 * a cycle. The exact body is attached, and the relay's own headers are headers of the mail. Needs the package
 * `nodemailer`.
 */
export const toMail = (options: MailOptions): Plugin<"transport", Transport> =>
  busPlugin({
    scheme: "mail",
    options,
    rules: {
      server: SERVER,
      from: text("an address, such as relay@example.com", ADDRESS),
      to: texts("a list of addresses, such as ops@example.com or *@example.com", ALLOWED),
      user: optional(text("text")),
      password: optional(secret),
      tls: tlsRule(),
      starttls: optional(flag),
    },
    problems: [...loginProblems(options ?? {}), ...packageProblems("toMail", PACKAGES)],
    secrets: { password: options?.password },
    async open(options, context) {
      const client = await loadPackages("toMail", PACKAGES, () => import("nodemailer"));
      const { MailTransport } = await import("./mail/transport.ts");
      return new MailTransport(options, context, client.createTransport);
    },
  });
