/** One throw-away authority per test process, and certificates of it. */
import { makeAuthority } from "../../cli/support/certificates.ts";
import type { Authority, KeyPair, Validity } from "../../cli/support/certificates.ts";

export type { Authority, KeyPair } from "../../cli/support/certificates.ts";
export { makeAuthority } from "../../cli/support/certificates.ts";

let shared: Promise<Authority> | undefined;
let loopback: Promise<KeyPair> | undefined;

/** The authority that this test process shares; `(await testAuthority()).ca` is what to trust. */
export const testAuthority = (): Promise<Authority> => (shared ??= makeAuthority(Date.now(), "Relay test CA"));

/** A certificate for `localhost`, `127.0.0.1` and `::1`, made once per test process. */
export const loopbackCertificate = (): Promise<KeyPair> =>
  (loopback ??= testAuthority().then((authority) => authority.issue(["localhost", "127.0.0.1", "::1"])));

let clients = 0;
/** A new client certificate of the shared authority. */
export const clientCertificate = async (validity?: Validity): Promise<KeyPair> =>
  (await testAuthority()).issue([`client-${++clients}.example.com`], validity, "client");
