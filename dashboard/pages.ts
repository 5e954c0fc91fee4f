/** The pages that a config asks for, as the command hands them to the relay: the dashboard, the portal, both or none. */
import { hash } from "node:crypto";
import { gzipSync } from "node:zlib";
import { onColor, type Portal, type Theme, type ThemeColors } from "../core/model/portal.ts";
import { VERSION } from "../core/model/version.ts";
import type { Plan } from "../core/ports/plan.ts";
import type { Route, RouteRequest } from "../core/ports/plugin.ts";
import { type Asset, type Assets, assetsOnce } from "./assets.ts";
import { answer, answerAsset, html, securityHeaders } from "./page.ts";

/** Facts that the scripts of a page read as `dataset`. */
type Data = Readonly<Record<string, string>>;

/** @param firstRun whether there is no account yet; absent where the relay keeps none and takes tokens from elsewhere */
export function pages(plan: Plan, firstRun: (() => Promise<boolean>) | undefined): readonly Route[] {
  const { dashboard, portal, signature } = plan;
  // For the view of a sent request.
  const data = { agent: `Relay/${VERSION}`, repeated: JSON.stringify(signature.headers) };
  const assets = assetsOnce();
  return [
    ...(dashboard ? dashboardRoutes(assets, { ...data, portal: portal === false ? "no" : "yes" }, firstRun) : []),
    ...(portal ? portalRoutes(assets, data, portal) : []),
    ...docsRoutes(assets),
  ];
}

const get = (path: string, handle: Route["handle"]): Route => ({ method: "GET", path, handle });

/** Answers with the document of a page, which browsers ask for each time. */
function answerPage(
  request: RouteRequest,
  { start }: Assets,
  etag: string,
  text: string,
  framedBy?: readonly string[],
) {
  const type = { "content-type": "text/html; charset=utf-8", "cache-control": "no-cache" };
  return answer(request, { ...securityHeaders(framedBy, start), ...type }, `"${etag}"`, Buffer.from(text));
}

/** Serves the dashboard at `/developers`, to which `/` leads, and its assets, which never change under their names. */
function dashboardRoutes(
  assets: () => Promise<Assets>,
  data: Data,
  firstRun: (() => Promise<boolean>) | undefined,
): readonly Route[] {
  const own = { auth: firstRun ? "accounts" : "tokens", docs: "docs" };
  return [
    get("/", async () => {
      const headers = { location: "developers", "cache-control": "no-cache", "content-type": "text/plain" };
      return { status: 302, headers, body: "The dashboard is at /developers\n" };
    }),
    get("/developers", async (request) => {
      const [all, first] = await Promise.all([assets(), firstRun?.() ?? false]);
      const set = { ...own, "first-run": first ? "yes" : "no", ...data };
      const text = html(all, { base: "developers", title: "Relaybox", data: set });
      return answerPage(request, all, `${all.version}${first ? "-first" : ""}`, text);
    }),
    get("/developers/{asset}", async (request) => answerAsset(request, await assets(), securityHeaders())),
  ];
}

/** Serves the reference and the guides at `/docs`, also where there is no dashboard: the API is. */
const docsRoutes = (assets: () => Promise<Assets>): readonly Route[] => [
  get("/docs", async (request) => {
    const all = await assets();
    const names = [...all.docs.keys()];
    const data = { auth: "none", guides: `docs/${names.at(-1)}` };
    const page = html(
      { ...all, main: names[0] ?? "" },
      { base: "docs", title: "Relaybox: reference and guides", data },
    );
    return answerPage(request, all, short(page), page);
  }),
  get("/docs/{asset}", async (request) => {
    const all = await assets();
    return answerAsset(request, all, securityHeaders(), all.docs);
  }),
];

const ENDINGS: Readonly<Record<string, string>> = {
  "image/png": "png",
  "image/jpeg": "jpg",
  "image/webp": "webp",
  "image/svg+xml": "svg",
};

/** Serves the portal at `/portal`: the same page for one key, with the name, logo and colours of the config. */
function portalRoutes(assets: () => Promise<Assets>, data: Data, portal: Portal): readonly Route[] {
  const { name, logo, colors, docs, frameAncestors } = portal;
  const css = `${declarations("light", colors.light)}${declarations("dark", colors.dark)}`;
  // Under the names by which `style.css` takes the colours.
  const text = Buffer.from(`:root { ${css}}\n`);
  const style = css === "" ? undefined : asset("colors", "css", "text/css; charset=utf-8", text);
  const picture = logo && asset("logo", ENDINGS[logo.type] ?? "img", logo.type, Buffer.from(logo.data, "base64"));
  const own = new Map([style, picture].filter((one) => one !== undefined).map((one) => [one.name, one]));
  const set = {
    auth: "portal",
    ...data,
    product: name,
    ...(picture && { logo: `portal/${picture.name}` }),
    ...(docs && { docs }),
  };
  return [
    get("/portal", async (request) => {
      const all = await assets();
      const page = html(all, { base: "portal", title: name, data: set, style: style?.name });
      return answerPage(request, all, short(page), page, frameAncestors);
    }),
    get("/portal/{asset}", async (request) => {
      const found = answerAsset(request, await assets(), securityHeaders(), own);
      if (request.params["asset"] !== picture?.name) return found;
      // An SVG that is opened by itself is a document: it must run nothing.
      const inert = { "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox" };
      return { ...found, headers: { ...found.headers, ...inert } };
    }),
  ];
}

function asset(base: string, end: string, type: string, body: Buffer): Asset {
  return { name: `${base}.${short(body)}.${end}`, type, body, gzip: gzipSync(body, { level: 9 }) };
}

const short = (content: string | Buffer): string => hash("sha256", content).slice(0, 12);

function declarations(theme: Theme, colors: ThemeColors = {}): string {
  const { accent } = colors;
  const all = { ...colors, ...(accent !== undefined && { "on-accent": onColor(accent) }) };
  return Object.entries(all)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `--${theme}-${name}: ${value}; `)
    .join("");
}
