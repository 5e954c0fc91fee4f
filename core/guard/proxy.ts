/**
 * Opens a tunnel through an HTTP proxy (CONNECT, RFC 9110, 9.3.6) to an address that the guard has checked. The proxy is
 * asked for the address and never for the name: it would resolve the name itself, to whatever it finds then.
 */
import type { Socket } from "node:net";
import { ConnectError, ProxyError } from "../model/errors.ts";
import type { ConnectProxy } from "../ports/plugin.ts";

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

/** Asks for the tunnel. Returns the status; the socket then stands where the far side's first byte will come. */
const ask = (
  socket: Socket,
  { authorization }: ConnectProxy,
  authority: string,
  signal: AbortSignal,
): Promise<number> =>
  new Promise((resolve, reject) => {
    let head = Buffer.alloc(0);
    const settle = (): void => {
      signal.removeEventListener("abort", abort);
      socket.off("data", read).off("error", failed).off("close", closed).pause();
      socket.on("error", () => undefined);
    };
    const fail = (error: Error): void => {
      settle();
      socket.destroy();
      reject(error);
    };
    const abort = (): void => fail(signal.reason as Error);
    const failed = (): void => fail(new ProxyError("the connection to the proxy broke"));
    const closed = (): void => fail(new ProxyError("the proxy closed the connection"));
    const read = (chunk: Buffer): void => {
      head = Buffer.concat([head, chunk]);
      const end = head.indexOf("\r\n\r\n");
      if (end < 0 && head.length <= LONGEST_HEAD) return;
      const status = /^HTTP\/1\.[01] (\d{3})(?: |\r)/.exec(head.toString("latin1", 0, 16))?.[1];
      // A TLS server does not speak first, so nothing may follow a head that opens the tunnel.
      const more = status?.startsWith("2") === true && end + 4 < head.length;
      if (status === undefined || end < 0 || more) return fail(new ProxyError("the proxy's answer is not HTTP"));
      settle();
      resolve(Number(status));
    };
    if (signal.aborted) return abort();
    signal.addEventListener("abort", abort, { once: true });
    socket.on("data", read).once("error", failed).once("close", closed);
    const credentials = authorization === undefined ? "" : `Proxy-Authorization: ${authorization}\r\n`;
    socket.write(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n${credentials}\r\n`);
  });
