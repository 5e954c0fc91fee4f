/** A certificate authority that is kept in a folder, so that a relay that trusts it can go on doing so. */
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeAuthority, openAuthority, type Authority } from "../support/certificates.ts";
import { systemReason } from "../../core/lib/system-error.ts";
import type { CliEnvironment } from "../support/environment.ts";
import { EX_UNAVAILABLE, ExitError } from "../support/exit.ts";

/** Returns the authority kept in the folder, made at the first call, and again before it ends. @throws ExitError 69 */
export async function keptAuthority(folder: string, { clock }: CliEnvironment): Promise<Authority> {
  const [caFile, keyFile] = [join(folder, "ca.pem"), join(folder, "ca-key.pem")];
  try {
    if (existsSync(caFile) && existsSync(keyFile)) {
      const { X509Certificate } = await import("node:crypto");
      const ca = readFileSync(caFile, "utf8");
      const endsAt = Date.parse(new X509Certificate(ca).validTo);
      // Its certificates are valid for 30 days.
      if (endsAt - clock.now() > 31 * 86_400_000)
        return await openAuthority(ca, readFileSync(keyFile, "utf8"), clock.now());
    }
    const authority = await makeAuthority(clock.now(), "Relay listen");
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    writeFileSync(keyFile, authority.caKey, { mode: 0o600 });
    chmodSync(keyFile, 0o600);
    writeFileSync(caFile, authority.ca);
    return authority;
  } catch (error) {
    const { syscall } = error as NodeJS.ErrnoException;
    // A full disk or a kill may have cut a file off.
    const why =
      syscall === undefined
        ? "ca.pem or ca-key.pem is damaged: delete both, and new ones are made"
        : systemReason(error);
    throw new ExitError(EX_UNAVAILABLE, `cannot keep a certificate authority in ${folder}: ${why}`, { cause: error });
  }
}
