/** The mail transport hands each delivery to an SMTP server, as a mail to an address that the config allows. */
import { unknownOptions } from "../../core/model/field-errors.ts";
import type { FieldError } from "../../core/model/problem.ts";
import { isSecretOption } from "../../core/model/secret-option.ts";
import { loadPackages, packageProblems } from "../../core/ports/optional-package.ts";
import type { Plugin } from "../../core/ports/plugin.ts";
import type { Transport } from "../../core/ports/transport.ts";
import { nameProblems } from "./buses/destination.ts";
import { tlsFileProblems, tlsProblems } from "./buses/tls-files.ts";
import { ADDRESS, DOMAIN } from "./mail/address.ts";
import type { MailOptions } from "./mail/options.ts";

export type { MailOptions } from "./mail/options.ts";

const OWN: readonly (keyof MailOptions)[] = [
  ...(["name", "server", "from", "to", "user", "password"] as const),
  ...(["tls", "starttls"] as const),
];

const PACKAGES = ["nodemailer"];
const ALLOWED = new RegExp(`^(?:\\*|[A-Za-z0-9_][A-Za-z0-9._+-]{0,63})@${DOMAIN}$`);
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
  async setup(context) {
    const client = await loadPackages("toMail", PACKAGES, () => import("nodemailer"));
    const { openMail } = await import("./mail/transport.ts");
    return openMail(options, context, client.createTransport);
  },
});

function problemsOf(options: Partial<MailOptions>): readonly FieldError[] {
  const { name, server, from, to, user, password, starttls = true } = options;
  const problems = [...nameProblems(name), ...packageProblems("toMail", PACKAGES), ...tlsProblems(options.tls)];
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
