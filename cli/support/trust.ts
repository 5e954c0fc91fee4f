/** Trusts a relay that speaks TLS: the commands add what their own config names to what Node trusts. */
import { readFile } from "node:fs/promises";
import { checkServerIdentity, getCACertificates, type ConnectionOptions } from "node:tls";
import { certificatesOf } from "../../core/model/credentials.ts";
import type { Plan } from "../../core/ports/plan.ts";

export type Trust = Pick<ConnectionOptions, "ca" | "allowPartialTrustChain" | "checkServerIdentity">;

/**
 * Trusts the certificates of `server.tls` and `guard.ca`.
 * @param here true for the address that the config itself names: the server's own certificate is for its public name
 * @returns nothing where the config names none
 */
export async function trustOf({ server: { tls }, guard: { ca } }: Plan, here: boolean): Promise<Trust | undefined> {
  const files = [tls?.cert, ca].filter((file) => file !== undefined);
  if (files.length === 0) return undefined;
  const found = await Promise.all(files.map(async (file) => certificatesOf(await readFile(file, "utf8"))));
  const own = here && tls ? found[0]?.[0]?.fingerprint256 : undefined;
  return {
    ca: [...getCACertificates("default"), ...found.flat().map((one) => one.toString())],
    // The server's own certificate is trusted where its authority is not named.
    allowPartialTrustChain: true,
    checkServerIdentity: (host, peer) =>
      own !== undefined && peer.fingerprint256 === own ? undefined : checkServerIdentity(host, peer),
  };
}

/** Returns `fetch` with that trust: Node's own takes none. Loads a library, which only a relay with such a certificate needs. */
export async function fetchWith(trust: Trust): Promise<typeof fetch> {
  const undici = await import("undici");
  const dispatcher = new undici.Agent({ connect: { ...trust } });
  const trusting = (input: string, init?: object) => undici.fetch(input, { ...init, dispatcher });
  return trusting as unknown as typeof fetch;
}
