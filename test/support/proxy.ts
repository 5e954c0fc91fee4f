/** An HTTP proxy on loopback that opens tunnels, records what it was asked for, and refuses on demand. */
import { createServer, type IncomingMessage, type Server } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { connect, type AddressInfo, type Socket } from "node:net";
import { loopbackCertificate } from "./certificates.ts";

export interface Proxy extends AsyncDisposable {
  readonly port: number;
  /** The targets that it was asked for, in order: `127.0.0.1:443`, and the `Proxy-Authorization`. */
  readonly asked: readonly { readonly authority: string; readonly authorization: string | undefined }[];
  /** From now on it answers with this instead of a tunnel; `undefined`: it opens tunnels again. */
  refuse(answer: string | undefined): void;
}

/** @param tls whether the proxy itself speaks TLS, with the certificate for localhost */
export async function startProxy({ tls = false, port = 0 } = {}): Promise<Proxy> {
  const sockets = new Set<Socket>();
  const asked: Proxy["asked"][number][] = [];
  let answer: string | undefined;
  const keep = (socket: Socket): Socket => {
    sockets.add(socket);
    return socket.on("error", () => socket.destroy()).on("close", () => sockets.delete(socket));
  };
  const server: Server = tls ? createTlsServer(await loopbackCertificate()) : createServer();
  server.on("connection", keep).on("secureConnection", keep);
  server.on("connect", (request: IncomingMessage, client: Socket) => {
    asked.push({ authority: request.url ?? "", authorization: request.headers["proxy-authorization"] });
    keep(client);
    if (answer !== undefined) return client.end(answer);
    const { hostname, port: to } = new URL(`http://${request.url ?? ""}`);
    const far = keep(connect(Number(to), hostname, () => client.write("HTTP/1.1 200 Connection established\r\n\r\n")));
    far.on("error", () => client.end("HTTP/1.1 502 Bad Gateway\r\n\r\n")).on("close", () => client.destroy());
    client.on("close", () => far.destroy());
    return far.pipe(client).pipe(far);
  });
  await new Promise<void>((resolve) => void server.listen(port, "127.0.0.1", resolve));
  return {
    port: (server.address() as AddressInfo).port,
    asked,
    refuse: (next) => void (answer = next),
    async [Symbol.asyncDispose]() {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}
