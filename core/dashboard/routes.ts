/** Serves the page at `/developers`, to which `/` leads, and its assets, which never change under their names. */
import type { RepeatedHeaders } from "../model/header-names.ts";
import type { Route, RouteReply, RouteRequest } from "../ports/plugin.ts";
import { loadAssets, type Assets } from "./assets.ts";

export interface DashboardDeps {
  /** Whether there is no account yet; absent where the relay keeps none and takes tokens from elsewhere. */
  readonly firstRun: (() => Promise<boolean>) | undefined;
  /** The `User-Agent` that the relay sends, for the view of a sent request. */
  readonly userAgent: string;
  /** Headers that deliveries have a second time, under a name of the config, for the same view. */
  readonly repeated?: RepeatedHeaders;
}

const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");
const GUARDED = {
  "content-security-policy": POLICY,
  "referrer-policy": "no-referrer",
  "x-frame-options": "DENY",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "permissions-policy": "camera=(), geolocation=(), microphone=()",
};
const FOR_EVER = "public, max-age=31536000, immutable";

export function dashboardRoutes(deps: DashboardDeps): readonly Route[] {
  let loading: Promise<Assets> | undefined;
  // Kept after success; a failure is tried again.
  const assets = (): Promise<Assets> =>
    (loading ??= loadAssets().catch((error: unknown) => {
      loading = undefined;
      throw error;
    }));

  return [
    {
      method: "GET",
      path: "/",
      async handle() {
        const headers = { location: "/developers", "cache-control": "no-cache", "content-type": "text/plain" };
        return { status: 302, headers, body: "The dashboard is at /developers\n" };
      },
    },
    {
      method: "GET",
      path: "/developers",
      async handle(request) {
        const [all, first] = await Promise.all([assets(), deps.firstRun?.() ?? false]);
        const text = page(all, deps, first);
        const head = { ...GUARDED, "content-type": "text/html; charset=utf-8", "cache-control": "no-cache" };
        return answer(request, head, `"${all.version}${first ? "-first" : ""}"`, Buffer.from(text));
      },
    },
    {
      method: "GET",
      path: "/developers/{asset}",
      async handle(request) {
        const { byName, version } = await assets();
        const found = byName.get(request.params["asset"] ?? "");
        if (found === undefined) return { status: 404, headers: { "content-type": "text/plain" }, body: "Not found\n" };
        const head = { ...GUARDED, "content-type": found.type, "cache-control": FOR_EVER, vary: "accept-encoding" };
        const zipped = takesGzip(request.header("accept-encoding"));
        const coded = zipped ? { ...head, "content-encoding": "gzip" } : head;
        return answer(request, coded, `"${version}${zipped ? "-gzip" : ""}"`, zipped ? found.gzip : found.body);
      },
    },
  ];
}

function answer(request: RouteRequest, headers: Record<string, string>, etag: string, body: Uint8Array): RouteReply {
  const known = (request.header("if-none-match") ?? "").split(",").map((one) => one.trim().replace(/^W\//, ""));
  if (known.includes(etag) || known.includes("*")) return { status: 304, headers: { ...headers, etag } };
  return { status: 200, headers: { ...headers, etag }, body };
}

const takesGzip = (accepted: string | undefined): boolean =>
  (accepted ?? "").split(",").some((one) => /^\s*(gzip|\*)\s*(;\s*q=(?!0(\.0*)?\s*$).*)?$/i.test(one));

function page(
  { byName, version }: Assets,
  { firstRun, userAgent, repeated = {} }: DashboardDeps,
  first: boolean,
): string {
  const at = (base: string, end: string): string => `/developers/${base}.${version}.${end}`;
  // What every view needs is loaded at once, not one import after the other.
  const preloads = [...byName.keys()]
    .filter((name) => name.endsWith(".js") && !/^(main|theme|uqr|uplot)\./.test(name))
    .map((name) => `<link rel="modulepreload" href="/developers/${name}">`);
  return `<!doctype html>
<html lang="en" data-auth="${firstRun ? "accounts" : "tokens"}" data-first-run="${first ? "yes" : "no"}" data-agent="${attribute(userAgent)}" data-repeated="${attribute(JSON.stringify(repeated))}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Relay</title>
<link rel="icon" type="image/svg+xml" href="${at("icon", "svg")}">
<link rel="stylesheet" href="${at("style", "css")}">
<script src="${at("theme", "js")}"></script>
${preloads.join("\n")}
<script type="module" src="${at("main", "js")}"></script>
</head>
<body>
<div id="app"><main class="boot"><h1 class="brand">Relay</h1><p role="status">Loading…</p></main></div>
<noscript><p class="notice">This page needs JavaScript. Everything it shows is in the API too: see /docs.</p></noscript>
</body>
</html>
`;
}

const attribute = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll('"', "&quot;").replaceAll("<", "&lt;");
