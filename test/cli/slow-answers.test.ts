// The command against a server that begins an answer and does not end it, or says more than any relay does.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, it } from "vitest";
import { systemClock } from "../../core/runtime/clock.ts";
import { runHere, type HereOptions } from "../support/command-here.ts";

let server: Server;
let url: string;
let answer: (response: ServerResponse, request: IncomingMessage) => void;
beforeAll(async () => {
  server = createServer((request, response) => answer(response, request)).listen(0, "127.0.0.1");
  await new Promise((resolve) => void server.once("listening", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => {
  server.closeAllConnections();
  return new Promise((resolve) => void server.close(resolve));
});

const run = (args: string[], options?: HereOptions) => runHere([...args, "--url", url, "--token", "t"], options);
const JSON_TYPE = { "content-type": "application/json" };

/** A clock whose first wait is over as soon as the server was asked; it notes how long that was to be. */
function impatient() {
  const asked = Promise.withResolvers<void>();
  const waits: number[] = [];
  const clock = {
    ...systemClock(),
    now: () => 0,
    async sleep(until: number) {
      waits.push(until);
      await asked.promise;
    },
  };
  return { clock, waits, asked: asked.resolve };
}

it.each([
  ["status", 200],
  ["status", 500],
  ["tail --key k", 500],
  ["tail --key k", undefined],
])("relay %s gives up after 45 s where the answer %s never ends", async (command, status) => {
  const { clock, waits, asked } = impatient();
  answer = (response) => {
    if (status !== undefined) response.writeHead(status, JSON_TYPE).write('{"data":');
    asked();
  };
  const { code, stderr } = await run(command.split(" "), { clock });
  expect({ code, waits }).toEqual({ code: 69, waits: [45_000] });
  expect(stderr).toContain("none within 45 s");
});

it.each(["status", "tail --key k"])("relay %s reads no answer without end", async (command) => {
  const over = Promise.withResolvers<void>();
  answer = (response) => {
    response.writeHead(command === "status" ? 200 : 500, JSON_TYPE).once("close", over.resolve);
    const text = "x".repeat(1_048_576);
    const more = (): void =>
      void (response.writable && (response.write(text) ? setImmediate(more) : response.once("drain", more)));
    more();
  };
  const { code, stderr } = await run(command.split(" "));
  expect(code).toBe(69);
  expect(stderr).toContain("more than a relay does");
  await over.promise;
});

it("relay tail takes nothing but a stream of events for one", async () => {
  let times = 0;
  answer = (response) => {
    times++;
    response.writeHead(200, { "content-type": "text/html", connection: "close" }).end("<html>");
  };
  const { code, stderr } = await run(["tail", "--key", "k"]);
  expect({ code, times }).toEqual({ code: 69, times: 1 });
  expect(stderr).toContain("it is no relay");
});
