/** Ports for servers that are killed and started again on the same port: for tests, benches and tools. */
import { createServer } from "node:net";

/**
 * Below the ranges that systems take the ports of outgoing connections from (Linux from 32768, others from 49152). Above,
 * a connection can take the port while its server is away, even one to that very port, which then reaches itself.
 */
const [LOWEST, HIGHEST] = [10_000, 32_000];
/**
 * Each process takes its ports from so many of its own, one after the other: the server that gets one may listen late. When
 * all of them are taken it takes others.
 */
const OWN = 100;
const first = LOWEST + (process.pid % ((HIGHEST - LOWEST) / OWN)) * OWN;
let taken = Math.floor(Math.random() * OWN);

/** Returns a port of 127.0.0.1 that nobody listens on just now. */
export async function freePort(): Promise<number> {
  for (let tries = 0; ; tries++) {
    const own = first + (taken++ % OWN);
    const port = tries < OWN ? own : LOWEST + Math.floor(Math.random() * (HIGHEST - LOWEST));
    if (await isFree(port)) return port;
  }
}

function isFree(port: number): Promise<boolean> {
  const server = createServer();
  return new Promise((resolve) => {
    server.once("error", () => resolve(false));
    server.listen({ port, host: "127.0.0.1", exclusive: true }, () => server.close(() => resolve(true)));
  });
}
