/** The URL of a server, which may hold a password: so it is a secret option, and no message shows it. */
import { StartError } from "../../../core/model/errors.ts";
import type { FieldError } from "../../../core/model/problem.ts";
import { isSecretOption } from "../../../core/model/secret-option.ts";

const EX_CONFIG = 78;

/** Returns what is wrong with the option, as far as it can be seen before the secret is read. */
export function urlProblems(path: string, url: unknown, schemes: readonly string[]): FieldError[] {
  if (typeof url === "string" ? isUrl(url, schemes) : isSecretOption(url)) return [];
  return [{ path, message: `must be ${rule(schemes)}` }];
}

/** @throws StartError 78 when the secret, once read, is no such URL */
export function checkedUrl(factory: string, url: string, schemes: readonly string[]): string {
  if (isUrl(url, schemes)) return url;
  throw new StartError(EX_CONFIG, `${factory}(): url must be ${rule(schemes)}`);
}

const rule = (schemes: readonly string[]): string =>
  `a URL that begins with ${schemes.map((scheme) => `${scheme}://`).join(" or ")}`;

function isUrl(text: string, schemes: readonly string[]): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, hostname } = new URL(text);
  return schemes.includes(protocol.slice(0, -1)) && hostname !== "";
}
