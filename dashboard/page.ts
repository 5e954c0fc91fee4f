/** Makes the document and the headers of the dashboard's page and the portal's, and answers with their assets. */
import { hash } from "node:crypto";
import type { RouteReply, RouteRequest } from "../core/ports/plugin.ts";
import type { Asset, Assets } from "./assets.ts";

const POLICY = [
  "default-src 'none'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
];
const FOR_EVER = "public, max-age=31536000, immutable";

type Headers = Readonly<Record<string, string>>;

/**
 * @param framedBy origins whose pages may show this one in a frame. @default none
 * @param script the only one that may stand in the document itself
 */
export function securityHeaders(framedBy: readonly string[] = [], script?: string): Headers {
  const framed = framedBy.length > 0;
  const inline = script === undefined ? "" : ` 'sha256-${hash("sha256", script, "base64")}'`;
  const policy = [...POLICY, `script-src 'self'${inline}`, `frame-ancestors ${framed ? framedBy.join(" ") : "'none'"}`];
  return {
    "content-security-policy": policy.join("; "),
    "referrer-policy": "no-referrer",
    // It knows no list of origins, and browsers that know the policy ignore it.
    ...(framed ? {} : { "x-frame-options": "DENY" }),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": framed ? "cross-origin" : "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
  };
}

export function answer(request: RouteRequest, headers: Headers, etag: string, body: Uint8Array): RouteReply {
  const known = (request.header("if-none-match") ?? "").split(",").map((one) => one.trim().replace(/^W\//, ""));
  if (known.includes(etag) || known.includes("*")) return { status: 304, headers: { ...headers, etag } };
  return { status: 200, headers: { ...headers, etag }, body };
}

/** Answers with the asset that the path names, of these or of those of one page alone. */
export function answerAsset(
  request: RouteRequest,
  { byName, version }: Assets,
  headers: Headers,
  own?: ReadonlyMap<string, Asset>,
): RouteReply {
  const name = request.params["asset"] ?? "";
  const found = byName.get(name) ?? own?.get(name);
  if (found === undefined) return { status: 404, headers: { "content-type": "text/plain" }, body: "Not found\n" };
  const head = { ...headers, "content-type": found.type, "cache-control": FOR_EVER, vary: "accept-encoding" };
  const zipped = takesGzip(request.header("accept-encoding"));
  const coded = zipped ? { ...head, "content-encoding": "gzip" } : head;
  return answer(request, coded, `"${version}${zipped ? "-gzip" : ""}"`, zipped ? found.gzip : found.body);
}

const takesGzip = (accepted: string | undefined): boolean =>
  (accepted ?? "").split(",").some((one) => /^\s*(gzip|\*)\s*(;\s*q=(?!0(\.0*)?\s*$).*)?$/i.test(one));

interface Document {
  /** Where its assets are: relative to the page, which may stand under a prefix. */
  readonly base: string;
  readonly title: string;
  /** Read by the page's scripts as `dataset`. */
  readonly data: Readonly<Record<string, string>>;
  /** A stylesheet after the page's own one, by its name. */
  readonly style?: string | undefined;
}

export function html({ version, start, main }: Assets, { base, title, data, style }: Document): string {
  const at = (name: string, end: string): string => `${base}/${name}.${version}.${end}`;
  const set = Object.entries(data).map(([name, value]) => ` data-${name}="${attribute(value)}"`);
  const more = style === undefined ? "" : `\n<link rel="stylesheet" href="${base}/${style}">`;
  return `<!doctype html>
<html lang="en"${set.join("")}>
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${attribute(title)}</title>
<script>${start}</script>
<link rel="icon" type="image/svg+xml" href="${at("icon", "svg")}">
<link rel="stylesheet" href="${at("style", "css")}">${more}
<script type="module" src="${base}/${main}"></script>
</head>
<body>
<div id="app"><main class="boot"><h1 class="brand">${attribute(title)}</h1><p role="status">Loading…</p></main></div>
<noscript><p class="notice">This page needs JavaScript. Everything it shows is in the API too: see <a href="openapi.json">openapi.json</a>.</p></noscript>
</body>
</html>
`;
}

const attribute = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll('"', "&quot;").replaceAll("<", "&lt;");
