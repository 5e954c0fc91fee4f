/** Opens TCP to a checked address: the first that answers wins, and the peer must be the dialled address. */
import type { Socket } from "node:net";
import { causeOf } from "../lib/reason.ts";
import { ConnectError } from "../model/errors.ts";
import type { Clock } from "../ports/clock.ts";
import { awaitSocket } from "./await-socket.ts";
import { parseAddress, sameAddress } from "./ip-address.ts";

/** Begins a TCP connection to an address literal; the socket is not connected yet. */
export type Dial = (address: string, port: number) => Socket;

/** Head start of one address before the next is tried in parallel (RFC 8305 §5), ms. */
const HEAD_START_MS = 250;
/** Most addresses that are tried: more would exceed the attempt's deadline. */
const MOST = 8;

/**
 * @throws ConnectError `connect` when no address answers, `guard` when a peer is not the dialled address; the signal's
 * reason; any other error when this machine itself cannot open a socket (out of descriptors or memory)
 */
export const dialFirst = async (
  addresses: readonly string[],
  port: number,
  dial: Dial,
  clock: Clock,
  signal: AbortSignal,
): Promise<Socket> => {
  const list = [...new Set(addresses)].slice(0, MOST);
  const [only] = list;
  if (only !== undefined && list.length === 1) return await open(only, port, dial, signal);
  const race = new AbortController();
  const { promise, resolve, reject } = Promise.withResolvers<Socket>();
  let next = 0;
  let running = 0;
  let first: Error | undefined;
  const lost = (error: Error): void => {
    running -= 1;
    first ??= error;
    if (next < list.length) start();
    else if (running === 0) reject(first);
  };
  const start = (): void => {
    const address = list[next++];
    if (address === undefined || race.signal.aborted) return;
    running += 1;
    open(address, port, dial, race.signal).then((socket) => {
      // Two may answer in the same turn: close the second.
      if (race.signal.aborted) return void socket.destroy();
      resolve(socket);
      race.abort(LOST);
    }, lost);
    clock.sleep(clock.now() + HEAD_START_MS, race.signal).then(start, () => undefined);
  };
  const abort = (): void => {
    reject(signal.reason);
    race.abort(LOST);
  };
  signal.throwIfAborted();
  signal.addEventListener("abort", abort, { once: true });
  start();
  try {
    return await promise;
  } finally {
    signal.removeEventListener("abort", abort);
  }
};

const LOST = new Error("another address answered first");

const open = async (address: string, port: number, dial: Dial, signal: AbortSignal): Promise<Socket> => {
  signal.throwIfAborted();
  const socket = dial(address, port);
  return await awaitSocket(socket, signal, (resolve, fail) => ({
    connect() {
      if (socket.remoteAddress === undefined)
        return fail(new ConnectError("connect", "the connection was closed at once"));
      const peer = parseAddress(socket.remoteAddress);
      const meant = parseAddress(address);
      if (peer === undefined || meant === undefined || !sameAddress(peer, meant))
        return fail(new ConnectError("guard", "the peer is not the address that was checked", "PEER_NOT_PUBLIC"));
      socket.setNoDelay(true);
      resolve(socket);
    },
    error(error: NodeJS.ErrnoException) {
      const { code = "" } = error;
      fail(LOCAL.has(code) ? error : new ConnectError("connect", `cannot connect: ${causeOf(error)}`, error.code));
    },
  }));
};

/** Errors of this machine, not the receiver's: the relay is out of a resource, so the attempt must not count. */
const LOCAL = new Set(["EMFILE", "ENFILE", "ENOBUFS", "ENOMEM"]);
