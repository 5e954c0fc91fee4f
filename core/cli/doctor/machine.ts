/** Checks the machine: Node, shared libraries, the limit of open files, trusted certificates. */
import { X509Certificate, createPrivateKey } from "node:crypto";
import { readFile } from "node:fs/promises";
import { getCACertificates } from "node:tls";
import { readCertificates } from "../../guard/index.ts";
import type { Plan } from "../../ports/plan.ts";
import { bad, good, reasonOf, warn, type DoctorFinding } from "./finding.ts";

/** Open files beside connections: the database, the log, watchers, name servers. */
const OTHER_FILES = 200;
const SOON_MS = 14 * 86_400_000;

export function checkNode(): DoctorFinding {
  const { node } = process.versions;
  return Number(node.split(".")[0]) >= 24
    ? good("node", process.version)
    : bad("node", process.version, "run it on Node 24 or newer");
}

/** Of the C library and the others that Node loads: a host of the executable needs the same ones. */
const LIBRARIES = /lib(?:stdc\+\+|atomic|gcc_s)[^/]*$/;

/** What a host needs for this Node, and so for an executable that is built of it. */
export function checkLibraries(): DoctorFinding[] {
  if (process.platform !== "linux") return [];
  const { header, sharedObjects } = process.report.getReport() as unknown as {
    readonly header: { readonly glibcVersionRuntime?: string; readonly glibcVersionCompiler?: string };
    readonly sharedObjects: readonly string[];
  };
  const { glibcVersionRuntime: runs, glibcVersionCompiler: least } = header;
  const libc = runs === undefined ? "no glibc (musl)" : `glibc ${runs} (needs ${least ?? runs} or newer)`;
  const others = sharedObjects.flatMap((path) => LIBRARIES.exec(path)?.[0] ?? []);
  return [good("libraries", [libc, ...others].join(", "))];
}

/** @param limits of this process; tests pass their own */
export function checkFiles({ server, delivery }: Plan, limits = userLimits()): DoctorFinding {
  const soft = limits?.soft;
  if (soft === undefined) return good("open files", "this system sets no limit that can be read");
  const least = delivery.concurrency + OTHER_FILES;
  const wanted = server.maxConnections + least;
  const todo = `raise it to ${wanted} (LimitNOFILE=, --ulimit nofile=), or lower server.maxConnections and delivery.concurrency`;
  if (soft < least) return bad("open files", `${soft} are allowed, deliveries alone need ${least}`, todo);
  if (soft < wanted) return warn("open files", `${soft} are allowed, a full house needs ${wanted}`, todo);
  return good("open files", `${soft} are allowed, a full house needs ${wanted}`);
}

function userLimits(): { readonly soft: number | undefined } | undefined {
  const report = process.report.getReport() as { userLimits?: { open_files?: { soft?: number | string } } };
  const soft = report.userLimits?.open_files?.soft;
  return soft === undefined ? undefined : { soft: typeof soft === "number" ? soft : Number.POSITIVE_INFINITY };
}

/** Checks the authorities that deliveries trust. @param system number of the system's authorities; tests pass their own */
export async function checkTrust({ guard }: Plan, now: number, system?: number): Promise<DoctorFinding[]> {
  const found: DoctorFinding[] = [];
  const count = system ?? getCACertificates("system").length;
  const own = getCACertificates("default").length;
  found.push(
    count > 0
      ? good("tls trust", `${count} authorities of the system, ${own} of Node`)
      : own > 0
        ? warn(
            "tls trust",
            `the system has no authorities; Node brings ${own}`,
            "install ca-certificates to follow the system's",
          )
        : bad("tls trust", "nobody is trusted", "install ca-certificates"),
  );
  if (guard.ca === undefined) return found;
  try {
    const certificates = readCertificates(await readFile(guard.ca, "utf8"));
    for (const pem of certificates) found.push(judgeCertificate("guard.ca", new X509Certificate(pem), now, true));
  } catch (error) {
    found.push(bad("guard.ca", `${guard.ca} cannot be read (${reasonOf(error)})`, "give a PEM file with certificates"));
  }
  return found;
}

/** Checks the server's own certificate. */
export async function checkOwnCertificate({ server: { tls } }: Plan, now: number): Promise<DoctorFinding[]> {
  if (tls === undefined) return [];
  try {
    const certificate = new X509Certificate(await readFile(tls.cert));
    const key = createPrivateKey(await readFile(tls.key));
    if (!certificate.checkPrivateKey(key)) {
      return [
        bad("server.tls", "the key is not that of the certificate", "give the key that the certificate was made for"),
      ];
    }
    return [judgeCertificate("server.tls", certificate, now, false)];
  } catch (error) {
    return [bad("server.tls", `cannot be used (${reasonOf(error)})`, "give a certificate and its key as PEM files")];
  }
}

function judgeCertificate(check: string, certificate: X509Certificate, now: number, authority: boolean): DoctorFinding {
  const name = certificate.subject.replaceAll("\n", ", ") || "a certificate without a name";
  const from = Date.parse(certificate.validFrom);
  const to = Date.parse(certificate.validTo);
  const until = new Date(to).toISOString().slice(0, 10);
  if (now > to) return bad(check, `${name} ended on ${until}`, "renew it");
  if (now < from) return bad(check, `${name} is not valid yet`, "wait, or set the clock right");
  if (authority && !certificate.ca) {
    return warn(check, `${name} is no authority: it is trusted for itself alone`, "give the authority that issued it");
  }
  return to - now < SOON_MS
    ? warn(check, `${name} ends on ${until}`, "renew it soon")
    : good(check, `${name}, until ${until}`);
}
