/** Checks the text of a URL before any use of the network. */
import { hostname as checkName, type NameReason } from "./host-names.ts";

export type TextReason =
  | "URL_INVALID"
  | "URL_TOO_LONG"
  | "URL_SCHEME"
  | "URL_CHARSET"
  | "URL_FRAGMENT"
  | "URL_USERINFO"
  | "URL_NOT_CANONICAL"
  | NameReason;

/** A refusal. `malformed`: it is not an https URL at all (no string, empty, too long, another scheme). */
export interface RefusedUrl<Reason extends string = string> {
  readonly ok: false;
  readonly reason: Reason;
  /** One line for the subscriber: what to change. It never contains an address that a name resolved to. */
  readonly message: string;
  readonly malformed: boolean;
  /** The entry of `guard.allow` that would open it, where one can. */
  readonly allow?: string;
}

export interface ReadUrl {
  readonly ok: true;
  /** The URL as it is stored and dialled. */
  readonly href: string;
  /** As in `new URL(href).hostname`: IPv6 in brackets. */
  readonly hostname: string;
  readonly port: number;
}

const MAX_LENGTH = 2048;

/** The required scheme of a URL, and the port of one that names none. */
export interface SchemeOf {
  readonly scheme: string;
  readonly port: number;
}

/**
 * Reads a URL so strictly that no two parsers can disagree on where it leads (RFC 3986 and WHATWG give the same host).
 * A URL of another scheme is read as if it were https: parsers leave the hosts of unknown schemes unchanged, and
 * `0x7f.1` must not pass for a name.
 * @param named returns true for a host whose name rules the operator lifts
 */
export const readUrl = (
  url: unknown,
  named: (hostname: string) => boolean,
  { scheme, port: defaultPort }: SchemeOf = HTTPS,
): ReadUrl | RefusedUrl<TextReason> => {
  if (typeof url !== "string") return malformed("URL_INVALID", "must be a string");
  if (url === "") return malformed("URL_INVALID", "must not be empty");
  if (url.length > MAX_LENGTH) return malformed("URL_TOO_LONG", `must not be longer than ${MAX_LENGTH} characters`);
  if (url.slice(0, scheme.length + 1).toLowerCase() !== `${scheme}:`)
    return malformed("URL_SCHEME", `must start with ${scheme}://`);
  if (!/^[\x21-\x7e]+$/.test(url) || url.includes("\\"))
    return refused("URL_CHARSET", `must be visible ASCII without a backslash; write ${plainly(url)}`);
  if (url.includes("#")) return refused("URL_FRAGMENT", "must not have a fragment (#)");
  const rest = url.slice(scheme.length + 1);
  const [, authority = ""] = /^\/\/([^/?]*)/.exec(rest) ?? [];
  if (authority === "") return refused("URL_SCHEME", `must start with ${scheme}:// and a host`);
  if (authority.includes("@")) return refused("URL_USERINFO", "must not contain a user name or password");
  const parsed = URL.parse(`https:${rest}`);
  const href = URL.parse(url)?.href;
  if (parsed === null || href === undefined) return refused("URL_INVALID", "is not a valid URL");
  const { host, hostname } = parsed;
  const written = authority.toLowerCase();
  if (written !== host && written !== `${host}:443`)
    return refused("URL_NOT_CANONICAL", "write the host plainly: in this form it would be read as another one");
  const port = parsed.port !== "" ? Number(parsed.port) : written.endsWith(":443") ? 443 : defaultPort;
  const wrong = named(hostname) ? undefined : checkName(hostname);
  if (wrong === undefined) return { ok: true, href, hostname, port };
  return { ...refused(wrong.reason, wrong.message), ...(wrong.inner === true && { allow: `${hostname}:${port}` }) };
};

/** Says how a text with other characters is written: those of a host have a spelling of their own (RFC 5891). */
function plainly(url: string): string {
  const [, authority = ""] = /^[^:]*:\/\/([^/?#]*)/.exec(url) ?? [];
  const host = /[^\x20-\x7e]/.test(authority) ? URL.parse(`https://${authority}`)?.host : undefined;
  return host === undefined ? "other characters percent-encoded" : `the host as ${host}, others percent-encoded`;
}

const HTTPS: SchemeOf = { scheme: "https", port: 443 };

export const refused = <Reason extends string>(reason: Reason, message: string): RefusedUrl<Reason> => ({
  ok: false,
  reason,
  message,
  malformed: false,
});

const malformed = (reason: TextReason, message: string): RefusedUrl<TextReason> => ({
  ...refused(reason, message),
  malformed: true,
});
