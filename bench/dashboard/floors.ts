/** Serves pages that show 25 rows at once: what the browser takes for any page, and for one of the dashboard's size. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { loadAssets } from "../../dashboard/assets.ts";

const ROWS = Array.from({ length: 25 }, (_, i) => `<tr><td>evt_${i}<td>deposit:paid<td>delivered<td>200`).join("");
const TABLE = `<table><tbody>${ROWS}</table>`;

export interface Floors {
  readonly url: string;
  close(): void;
}

/** `/empty` has the rows in its document. `/scripts` has the dashboard's style and a script of its size, which draws them. */
export async function serveFloors(): Promise<Floors> {
  const { byName } = await loadAssets();
  const text = (start: string): string =>
    Buffer.from([...byName.values()].find(({ name }) => name.startsWith(start))?.body ?? "").toString();
  const main = text("main.");
  const pages: Readonly<Record<string, readonly [type: string, body: string]>> = {
    "/empty": ["text/html", `<!doctype html><body>${TABLE}`],
    "/scripts": [
      "text/html",
      `<!doctype html><head><link rel="stylesheet" href="/style.css"><script type="module" src="/main.js"></script><body><div id="app"></div>`,
    ],
    "/style.css": ["text/css", text("style.")],
    // Read and parsed, and not run.
    "/main.js": [
      "text/javascript",
      `function dashboard() {\n${main}\n}\ndocument.getElementById("app").innerHTML = ${JSON.stringify(TABLE)};`,
    ],
  };
  const server = createServer((request, response) => {
    const [type, body] = pages[request.url ?? ""] ?? ["text/plain", ""];
    response.writeHead(200, { "content-type": `${type}; charset=utf-8`, "cache-control": "no-store" }).end(body);
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => server.close().closeAllConnections(),
  };
}
