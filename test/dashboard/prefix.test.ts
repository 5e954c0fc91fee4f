// The page behind a proxy that serves the relay under a prefix and takes it away: all that it asks for is under the prefix, too.
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { expect } from "vitest";
import { alone } from "./stage.ts";

/** Passes on what is under `/relay/`, as `location /relay/ { proxy_pass http://relay/; }` does; all else is not there. */
async function underPrefix(url: string) {
  const outside: string[] = [];
  const server = createServer((req, res) => {
    const { method, headers, url: path = "" } = req;
    if (!path.startsWith("/relay/")) {
      outside.push(path);
      return void res.writeHead(404).end();
    }
    const on = request(url + path.slice("/relay".length), { method, headers }, (answer) => {
      res.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(res);
    });
    on.on("error", () => res.destroy());
    res.on("close", () => on.destroy());
    req.pipe(on);
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/relay`,
    outside,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

alone("under a prefix", (it) => {
  it("the dashboard keeps the session, lists, publishes and follows what happens", async (start) => {
    const { page, relay } = await start();
    await using proxy = await underPrefix(relay.url);
    await page.goto(`${proxy.url}/`);
    await page.waitForURL(`${proxy.url}/developers**`);
    await page.goto(`${proxy.url}/developers#/k/key_1/events`);
    await page.getByRole("heading", { level: 1, name: "Events" }).waitFor();
    await page.getByText("live", { exact: true }).waitFor();
    const published = await relay.publish({ type: "deposit:paid", keyId: "key_1", data: 1, id: "seen" });
    expect(published.status).toBe(202);
    await page.locator("a.id", { hasText: "seen" }).first().waitFor();
    const docs = await (await page.request.get(`${proxy.url}/docs`)).text();
    const asked = [...docs.matchAll(/ (?:src|data-guides|href)="([^"]+)"/g)].map(([, at = ""]) => at);
    expect(asked.map((at) => at.replace(/\.[\w-]+\./, "."))).toEqual([
      "docs/guides.json",
      "docs/icon.svg",
      "docs/style.css",
      "docs/reference.js",
      "openapi.json",
    ]);
    for (const at of asked) expect((await page.request.get(new URL(at, `${proxy.url}/docs`).href)).status()).toBe(200);
    // A browser asks for the icon of a site by itself.
    expect(proxy.outside.filter((path) => path !== "/favicon.ico")).toEqual([]);
    await page.goto("about:blank");
  });
});
