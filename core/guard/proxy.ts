/**
 * Opens a tunnel through an HTTP proxy (CONNECT, RFC 9110, 9.3.6) to an address that the guard has checked. The proxy is
 * asked for the address and never for the name: it would resolve the name itself, to whatever it finds then.
 */
import type { Socket } from "node:net";
import { ConnectError, ProxyError } from "../model/errors.ts";
import type { ConnectProxy } from "../ports/plugin.ts";
import { awaitSocket } from "./await-socket.ts";

/** Longest head of the proxy's answer, bytes. */
const LONGEST_HEAD = 8_192;
/** Addresses of a target that are tried, one after the other. */
const MOST = 3;
/** The proxy could not reach the target: another address may be reached. */
const TARGET_FAILED = new Set([502, 503, 504]);
/** It wants other credentials. Before there is a tunnel, a 401 is its own too: tinyproxy answers so to a wrong password. */
const CREDENTIALS = new Set([401, 407]);

/**
 * @param open opens a connection to the proxy
 * @returns the connection to the first of the addresses that the proxy reaches
 * @throws ConnectError `connect` when the proxy reaches none or refuses them; ProxyError when the proxy itself fails; the
 * signal's reason
 */
export async function tunnel(
  proxy: ConnectProxy,
  addresses: readonly string[],
  port: number,
  open: () => Promise<Socket>,
  signal: AbortSignal,
): Promise<Socket> {
  let status = 0;
  for (const address of addresses.slice(0, MOST)) {
    const socket = await open();
    status = await ask(socket, proxy, address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`, signal);
    if (status >= 200 && status < 300) return socket;
    socket.destroy();
    if (CREDENTIALS.has(status)) throw new ProxyError(`the proxy does not accept the relay's credentials (${status})`);
    if (!TARGET_FAILED.has(status)) throw new ConnectError("connect", `the proxy refuses the connection (${status})`);
  }
  throw new ConnectError("connect", `the proxy cannot connect (${status})`);
}

/** Asks for the tunnel. Returns the status; the next byte of the socket is then the first one of the far side. */
const ask = (
  socket: Socket,
  { authorization }: ConnectProxy,
  authority: string,
  signal: AbortSignal,
): Promise<number> => {
  let head = Buffer.alloc(0);
  const status = awaitSocket<number>(socket, signal, (resolve, fail) => ({
    data(chunk: Buffer) {
      head = Buffer.concat([head, chunk]);
      const end = head.indexOf("\r\n\r\n");
      if (end < 0 && head.length <= LONGEST_HEAD) return;
      const said = /^HTTP\/1\.[01] (\d{3})(?: |\r)/.exec(head.toString("latin1", 0, 16))?.[1];
      // A TLS server does not speak first, so nothing may follow a head that opens the tunnel.
      const more = said?.startsWith("2") === true && end + 4 < head.length;
      if (said === undefined || end < 0 || more) return fail(new ProxyError("the proxy's answer is not HTTP"));
      socket.pause();
      resolve(Number(said));
    },
    error: () => fail(new ProxyError("the connection to the proxy broke")),
    close: () => fail(new ProxyError("the proxy closed the connection")),
  }));
  const credentials = authorization === undefined ? "" : `Proxy-Authorization: ${authorization}\r\n`;
  if (!signal.aborted) socket.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n${credentials}\r\n`);
  return status;
};
