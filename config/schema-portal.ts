/** The shape of `portal`: name, logo and colours of the customers' pages, and who may show them in a frame. */
import { isLoopbackHost } from "../core/lib/loopback.ts";
import { readFileSync, statSync } from "node:fs";
import { isAbsolute, resolve } from "node:path";
import { z } from "zod";
import { colorProblems, PORTAL_COLORS, THEMES, type Portal, type PortalLogo } from "../core/model/portal.ts";
import { unreadable } from "../core/lib/reason.ts";
import { list, options, orFalse, refuse, textValue } from "./check-plan.ts";
import type { RelayConfig } from "./define.ts";

const MOST_ORIGINS = 20;
const MOST_LOGO_BYTES = 65_536;
/** A host in this form can hold nothing that means something in a Content-Security-Policy. */
const ORIGIN = /^https?:\/\/(?:[a-z0-9.-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?$/;
const ORIGIN_RULE = "must be an origin such as https://app.example.com (http: on loopback only), without a path";

const isOrigin = (text: string): boolean => {
  if (!ORIGIN.test(text) || !URL.canParse(text)) return false;
  const { origin, protocol, hostname } = new URL(text);
  return origin === text && (protocol === "https:" || isLoopbackHost(hostname));
};
const origin = textValue.refine(isOrigin, ORIGIN_RULE);
/** Segments behind the host, without a slash at the end. */
const PREFIX = /(?<=[^:/])(?:\/[\w~-]+)*$/;
const base = textValue.refine(
  (text) => isOrigin(text.replace(PREFIX, "")),
  "must be an origin such as https://app.example.com (http: on loopback only), with the path before the relay's where a proxy has one",
);

const isPage = (text: string): boolean => URL.canParse(text) && isOrigin(new URL(text).origin);

const color = z.custom<string>(
  (value) => typeof value === "string" && /^#[0-9a-f]{6}$/i.test(value),
  "must be a colour such as #2450c4",
);
const colors = options(Object.fromEntries(PORTAL_COLORS.map((name) => [name, color])));

/** @param dir where relative paths begin */
export const portal = (dir: string) =>
  orFalse(
    options({
      url: base,
      name: textValue.refine(isName, "must be 1 to 60 characters in one line"),
      logo: logo(dir),
      colors: options(Object.fromEntries(THEMES.map((theme) => [theme, colors]))).superRefine((given, ctx) => {
        for (const theme of THEMES)
          for (const { color: path, message } of colorProblems(theme, given[theme] ?? {}))
            refuse(ctx, message, theme, path);
      }),
      docs: textValue.refine(isPage, "must be a URL such as https://docs.example.com/webhooks"),
      frameAncestors: list(origin).refine((all) => all.length <= MOST_ORIGINS, `may be at most ${MOST_ORIGINS}`),
    }),
  );

function isName(text: string): boolean {
  return text.length <= 60 && text.trim() === text && !/[\p{Cc}\u2028\u2029]/u.test(text);
}

/** Reads the logo: a data URL, or a file, whose first bytes say what it is. */
const logo = (dir: string): z.ZodType<PortalLogo, unknown> =>
  textValue.transform((given, ctx) => {
    const no = (message: string): never => {
      refuse(ctx, message);
      return z.NEVER;
    };
    const found = given.startsWith("data:") ? dataOf(given) : fileOf(isAbsolute(given) ? given : resolve(dir, given));
    if (typeof found === "string") return no(found);
    if (found.byteLength > MOST_LOGO_BYTES) return no(`may have at most ${MOST_LOGO_BYTES} bytes`);
    const type = typeOf(found);
    return type === undefined
      ? no("must be a PNG, SVG, JPEG or WebP picture")
      : { type, data: found.toString("base64") };
  });

function dataOf(url: string): Buffer | string {
  const base64 = /^data:image\/[a-z+.-]+;base64,([A-Za-z0-9+/]+={0,2})$/.exec(url)?.[1];
  return base64 === undefined
    ? "must be a data URL of a picture in base64, or the path of a file"
    : Buffer.from(base64, "base64");
}

function fileOf(file: string): Buffer | string {
  try {
    return statSync(file).size > MOST_LOGO_BYTES ? `may have at most ${MOST_LOGO_BYTES} bytes` : readFileSync(file);
  } catch (error) {
    return unreadable(error, file);
  }
}

function typeOf(bytes: Buffer): string | undefined {
  const head = bytes.subarray(0, 12).toString("latin1");
  if (head.startsWith("\x89PNG\r\n")) return "image/png";
  if (head.startsWith("\xff\xd8\xff")) return "image/jpeg";
  if (head.startsWith("RIFF") && head.endsWith("WEBP")) return "image/webp";
  return /^(?:\ufeff)?\s*(?:<\?xml[^>]*>\s*)?(?:<!--[^]*?-->\s*)*<svg[\s>]/.test(bytes.toString("utf8"))
    ? "image/svg+xml"
    : undefined;
}

/** The portal of a checked config. Without the dashboard there is one only where the config describes it. */
export function portalOf(
  given: false | Partial<Portal> | undefined,
  dashboard: RelayConfig["dashboard"],
): Portal | false {
  if (given === false || (given === undefined && dashboard === false)) return false;
  const { url, name = "Relay", logo: picture, colors: chosen = {}, docs, frameAncestors = [] } = given ?? {};
  return { url, name, logo: picture, colors: chosen, docs, frameAncestors };
}
