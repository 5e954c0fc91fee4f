/** A server on a port that several threads listen on: the kernel gives each new connection to one of them. */
import { readFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { createServer as createSocketServer, type Server as SocketServer } from "node:net";
import type { Plan } from "../ports/plan.ts";

/** Whether the system lets several listeners share a port. Linux does; macOS and Windows do not. */
export async function canSharePort(): Promise<boolean> {
  const probe = createSocketServer();
  try {
    await listening(probe, { host: "127.0.0.1", port: 0 });
    return true;
  } catch {
    return false;
  } finally {
    probe.close();
  }
}

/** @throws the system's error when the address cannot be listened on, or the certificate not be read */
export async function openShared(
  handler: (req: IncomingMessage, res: ServerResponse) => void,
  { host, port, tls }: Pick<Plan["server"], "host" | "port" | "tls">,
): Promise<{ readonly server: Server; close(): Promise<void> }> {
  const server =
    tls === undefined
      ? createServer(handler)
      : createTlsServer({ cert: await readFile(tls.cert), key: await readFile(tls.key) }, handler);
  await listening(server, { host, port });
  return { server: server as Server, close: () => new Promise((closed) => void server.close(() => closed())) };
}

function listening(server: SocketServer, at: { readonly host: string; readonly port: number }): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen({ ...at, reusePort: true }, () => {
      server.off("error", reject);
      resolve();
    });
  });
}
