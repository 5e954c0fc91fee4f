// Receivers that are no good, in a process of their own: several TLS servers, each an origin, that do what the path says.
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { constants, setPriority } from "node:os";

/** Answers by path: never an answer, a late one, a failure, or a status line that is none. */
export const MOODS = ["hangs", "nine", "late", "fails", "nonsense"] as const;

export type ToHostile =
  | { readonly kind: "listen"; readonly cert: string; readonly key: string; readonly servers: number }
  | { readonly kind: "read" };
export type FromHostile =
  | { readonly kind: "listening"; readonly ports: readonly number[] }
  | {
      readonly kind: "figures";
      readonly requests: Readonly<Record<string, number>>;
      readonly mostOpen: number;
      readonly connections: number;
      readonly resumed: number;
    };

const say = (message: FromHostile): void => void process.send?.(message);
const requests: Record<string, number> = {};
let open = 0;
let mostOpen = 0;
let connections = 0;
let resumed = 0;

function answer(request: IncomingMessage, response: ServerResponse): void {
  const mood = (request.url ?? "").slice(1).split("/")[0] ?? "";
  requests[mood] = (requests[mood] ?? 0) + 1;
  mostOpen = Math.max(mostOpen, ++open);
  response.once("close", () => open--);
  const after = (ms: number): void => {
    const timer = setTimeout(() => response.writeHead(200, { "content-length": "0" }).end(), ms);
    response.once("close", () => clearTimeout(timer));
  };
  request.resume();
  request.on("error", () => {});
  switch (mood) {
    case "nine":
      return after(9_000);
    case "late":
      return after(28_000);
    case "fails":
      response.writeHead(500, { "content-length": "0" }).end();
      return;
    case "nonsense":
      request.socket.end("HTTP/1.1 000 X\r\nContent-Length: 0\r\n\r\n");
  }
}

// They stand for machines elsewhere: what they compute is not to take the cores that the relay and its healthy receiver share.
setPriority(constants.priority.PRIORITY_LOW);

process.on("message", (message: ToHostile) => {
  if (message.kind === "read") return say({ kind: "figures", requests, mostOpen, connections, resumed });
  const { cert, key, servers } = message;
  const listening = Array.from(
    { length: servers },
    () =>
      new Promise<number>((done) => {
        const server = createServer({ cert, key, keepAliveTimeout: 60_000 }, answer);
        server.on("tlsClientError", () => {});
        server.on("secureConnection", (socket) => {
          connections++;
          if (socket.isSessionReused()) resumed++;
        });
        server.listen(0, "127.0.0.1", () => done((server.address() as AddressInfo).port));
      }),
  );
  void Promise.all(listening).then((ports) => say({ kind: "listening", ports }));
});
process.on("disconnect", () => process.exit(0));
