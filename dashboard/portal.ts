/** Serves the portal at `/portal`: the same page for one key, with the name, logo and colours of the config. */
import { hash } from "node:crypto";
import { gzipSync } from "node:zlib";
import { onColor, type Portal, type Theme, type ThemeColors } from "../core/model/portal.ts";
import type { Route } from "../core/ports/plugin.ts";
import { type Asset, type Assets, assetsOnce } from "./assets.ts";
import type { DashboardDeps } from "./routes.ts";
import { answer, answerAsset, html, securityHeaders } from "./page.ts";

const ENDINGS: Readonly<Record<string, string>> = {
  "image/png": "png",
  "image/jpeg": "jpg",
  "image/webp": "webp",
  "image/svg+xml": "svg",
};

export function portalRoutes(
  { name, logo, colors, frameAncestors }: Portal,
  { userAgent, repeated = {}, assets = assetsOnce() }: Pick<DashboardDeps, "userAgent" | "repeated" | "assets">,
): readonly Route[] {
  const css = stylesheet(colors);
  const style = css === "" ? undefined : asset("colors", "css", "text/css; charset=utf-8", Buffer.from(css));
  const picture = logo && asset("logo", ENDINGS[logo.type] ?? "img", logo.type, Buffer.from(logo.data, "base64"));
  const own = new Map([style, picture].filter((one) => one !== undefined).map((one) => [one.name, one]));
  const data = {
    auth: "portal",
    agent: userAgent,
    repeated: JSON.stringify(repeated),
    product: name,
    ...(picture && { logo: `/portal/${picture.name}` }),
  };
  const page = (all: Assets): string => html(all, { base: "/portal", title: name, data, style: style?.name });

  return [
    {
      method: "GET",
      path: "/portal",
      async handle(request) {
        const all = await assets();
        const text = page(all);
        const head = {
          ...securityHeaders(frameAncestors, all.start),
          "content-type": "text/html; charset=utf-8",
          "cache-control": "no-cache",
        };
        return answer(request, head, `"${short(text)}"`, Buffer.from(text));
      },
    },
    {
      method: "GET",
      path: "/portal/{asset}",
      async handle(request) {
        const found = answerAsset(request, await assets(), securityHeaders(), own);
        // An SVG that is opened by itself is a document: it must run nothing.
        const inert = { "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox" };
        return request.params["asset"] === picture?.name
          ? { ...found, headers: { ...found.headers, ...inert } }
          : found;
      },
    },
  ];
}

function asset(base: string, end: string, type: string, body: Buffer): Asset {
  return { name: `${base}.${short(body)}.${end}`, type, body, gzip: gzipSync(body, { level: 9 }) };
}

const short = (content: string | Buffer): string => hash("sha256", content).slice(0, 12);

/** Returns the rule that sets the chosen colours, under the names by which `style.css` takes them. */
function stylesheet({ light, dark }: Portal["colors"]): string {
  const body = `${declarations("light", light)}${declarations("dark", dark)}`;
  return body === "" ? "" : `:root { ${body}}\n`;
}

function declarations(theme: Theme, colors: ThemeColors = {}): string {
  const { accent } = colors;
  const all = { ...colors, ...(accent !== undefined && { "on-accent": onColor(accent) }) };
  return Object.entries(all)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `--${theme}-${name}: ${value}; `)
    .join("");
}
