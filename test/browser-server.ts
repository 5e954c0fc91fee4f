/** One Chromium for the whole run, started by the first test file that asks for it: each start costs a second of CPU time. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { chromium, type BrowserServer } from "playwright-core";
import { findProgram } from "./support/needs.ts";

const ARGS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-background-networking", "--disable-gpu"];

let browser: Promise<BrowserServer> | undefined;

/** Answers with the address of the browser. */
const server = createServer((_request, response) => {
  browser ??= chromium.launchServer({ executablePath: findProgram("chromium"), args: ARGS, host: "127.0.0.1" });
  browser.then(
    (started) => response.end(started.wsEndpoint()),
    (error: unknown) => response.writeHead(500).end(String(error)),
  );
});

export async function setup(): Promise<void> {
  await once(server.listen(0, "127.0.0.1"), "listening");
  process.env["RELAY_TEST_BROWSER"] = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

export async function teardown(): Promise<void> {
  server.close();
  server.closeAllConnections();
  await (await browser)?.close();
}
