/** `/docs`: the reference, drawn by RapiDoc from `/openapi.json`. Its one script comes with the package, from nowhere else. */
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { getRawAsset, isSea } from "node:sea";
import type { Route } from "../../ports/plugin.ts";
import { notFound } from "../http/stations.ts";

/** The name under which it is served, and under which a single executable carries it. */
export const SCRIPT = "rapidoc-min.js";

/** Bytes of the script; `undefined` where the package is not there. */
type LoadScript = () => Promise<Uint8Array | undefined>;

/** A single executable carries it under its own name; what is published has it beside this file. */
const fromPackage: LoadScript = async () => {
  try {
    return isSea() ? new Uint8Array(getRawAsset(SCRIPT)) : await readFile(scriptFile());
  } catch {
    return undefined;
  }
};

/** Where the script lies. @throws Error when it is not installed */
export function scriptFile(): string {
  const beside = join(import.meta.dirname, "rapidoc/dist", SCRIPT);
  return existsSync(beside) ? beside : createRequire(import.meta.url).resolve(`rapidoc/dist/${SCRIPT}`);
}

const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Relay: API reference</title>
<script type="module" src="docs/${SCRIPT}"></script>
</head>
<body>
<rapi-doc spec-url="openapi.json" render-style="read" schema-style="table" load-fonts="false" show-header="false"
 allow-authentication="true" allow-server-selection="false" allow-spec-url-load="false" allow-spec-file-load="false"
 persist-auth="false" regular-font="system-ui, sans-serif" mono-font="ui-monospace, monospace">
<p>The reference is drawn by a script. The document itself is <a href="openapi.json">openapi.json</a>.</p>
</rapi-doc>
</body>
</html>
`;

/** Inline styles are RapiDoc's way; scripts, requests and everything else stay at home. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join("; ");

const HEADERS = {
  "content-security-policy": POLICY,
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
};

export function docsRoutes(load: LoadScript = fromPackage): readonly Route[] {
  let script: Promise<Uint8Array | undefined> | undefined;
  return [
    {
      method: "GET",
      path: "/docs",
      handle: async () => ({
        status: 200,
        headers: { ...HEADERS, "content-type": "text/html; charset=utf-8" },
        body: PAGE,
      }),
    },
    {
      method: "GET",
      path: `/docs/${SCRIPT}`,
      async handle() {
        const body = await (script ??= load());
        if (body === undefined) throw notFound();
        const headers = { "content-type": "text/javascript; charset=utf-8", "cache-control": "max-age=86400" };
        return { status: 200, headers, body };
      },
    },
  ];
}
