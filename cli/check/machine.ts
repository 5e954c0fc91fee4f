/** Checks the machine: the data folder, its disk, the limit of open files, certificates, and the address to listen on. */
import { createPrivateKey, type X509Certificate } from "node:crypto";
import { existsSync } from "node:fs";
import { access, constants, mkdtemp, readdir, readFile, rmdir, stat, statfs } from "node:fs/promises";
import { createServer } from "node:net";
import { dirname, join } from "node:path";
import { certificatesOf } from "../../core/model/credentials.ts";
import { reasonOf } from "../../core/lib/reason.ts";
import type { Plan } from "../../core/ports/plan.ts";
import { localUrl } from "../support/client.ts";
import type { CliEnvironment } from "../support/environment.ts";
import { probe } from "../support/network.ts";
import { bad, type Finding, good, warn } from "./finding.ts";

const GIB = 1024 ** 3;
const [LEAST_FREE, LITTLE_FREE] = [0.1 * GIB, GIB];
/** Open files beside connections: the database, the log, watchers, name servers. */
const OTHER_FILES = 200;
const SOON_MS = 14 * 86_400_000;

/** Checks that this user can write to the data folder, who else can, and how much room there is. */
export async function checkFolder({ dataDir }: Plan): Promise<Finding[]> {
  let at = dataDir;
  while (!existsSync(at)) at = dirname(at);
  const found: Finding[] = [];
  try {
    // A file in place of a folder has nothing below it.
    if (at === dataDir) await rmdir(await mkdtemp(join(at, ".check-")));
    else await access(`${at}/.`, constants.W_OK);
    found.push(good("folder", `${dataDir} ${at === dataDir ? "can be written to" : "is made at the first start"}`));
  } catch (error) {
    const todo = "make the folder, owned by the relay's user, mode 0700, on a disk that is mounted read-write";
    found.push(bad("folder", `${at} cannot be written to: ${reasonOf(error)}`, todo));
  }
  if (at === dataDir && process.platform !== "win32") found.push(...(await checkModes(dataDir)));
  const { bavail, bsize } = await statfs(at);
  const free = bavail * bsize;
  const disk = [
    "disk",
    `${(free / GIB).toFixed(1)} GiB free`,
    "free space there, or shorten retention; a full disk refuses events with 503 and loses none",
  ] as const;
  return [...found, free < LEAST_FREE ? bad(...disk) : free < LITTLE_FREE ? warn(...disk) : good(disk[0], disk[1])];
}

/** Keys must be readable by their owner only, and the folder be written to by nobody else. */
async function checkModes(dir: string): Promise<Finding[]> {
  const keys = join(dir, "keys");
  const found: Finding[] = [];
  const owners = new Set<number | undefined>([process.getuid?.()]);
  const inspect = async (path: string, others: number, what: string): Promise<void> => {
    const one = await stat(path);
    owners.add(one.uid);
    if ((one.mode & others) === 0) return;
    // A mounted volume often belongs to a group (Kubernetes' fsGroup): a warning, not a fault.
    const say = path === dir && (one.mode & 0o002) === 0 ? warn : bad;
    const mode = (one.mode & 0o777).toString(8);
    const todo = `chmod ${one.isDirectory() ? "700" : "600"} ${path}`;
    found.push(say("modes", `${path} may be ${what} by others (mode 0${mode})`, todo));
  };
  try {
    await inspect(dir, 0o022, "written to");
    await inspect(keys, 0o077, "read");
    for (const name of await readdir(keys)) await inspect(join(keys, name), 0o077, "read");
  } catch (error) {
    // Without keys none has been made yet.
    if ((error as NodeJS.ErrnoException).code !== "ENOENT")
      found.push(warn("modes", `${keys} cannot be looked at: ${reasonOf(error)}`, "run it as the relay's user"));
  }
  const [me, other] = owners;
  if (other !== undefined)
    found.push(
      warn("modes", `${dir} has files of user ${other}, and this is user ${me}`, "run it as the relay's user"),
    );
  return found.length > 0 ? found : [good("modes", "keys and data are their owner's alone")];
}

/** @param soft how many files this process may open; tests pass their own */
export function checkFiles({ server, delivery }: Plan, soft = openFiles()): Finding {
  const least = delivery.concurrency + OTHER_FILES;
  const wanted = server.maxConnections + least;
  const found = `${soft} are allowed, deliveries need ${least}, with all connections ${wanted}`;
  const todo = `raise it to ${wanted} (LimitNOFILE=, --ulimit nofile=), or lower server.maxConnections and delivery.concurrency`;
  if (soft < least) return bad("open files", found, todo);
  return soft < wanted ? warn("open files", found, todo) : good("open files", found);
}

/** Where the system sets no limit that can be read, there is none. */
function openFiles(): number {
  const report = process.report.getReport() as { userLimits?: { open_files?: { soft?: number | string } } };
  const soft = report.userLimits?.open_files?.soft;
  return typeof soft === "number" ? soft : Number.POSITIVE_INFINITY;
}

/** Checks that the certificates of the server and the authorities of deliveries hold, and that the server's key is its own. */
export async function checkCertificates({ server: { tls }, guard: { ca } }: Plan, now: number): Promise<Finding[]> {
  return [
    ...(tls === undefined ? [] : await certificatesIn("server.tls", tls.cert, now, tls.key)),
    ...(ca === undefined ? [] : await certificatesIn("guard.ca", ca, now)),
  ];
}

/** @param key the file of its key; without one they are authorities */
async function certificatesIn(check: string, file: string, now: number, key?: string): Promise<Finding[]> {
  try {
    const certificates = certificatesOf(await readFile(file, "utf8"));
    if (certificates[0] === undefined) throw new Error("it holds no certificate");
    if (key !== undefined && !certificates[0].checkPrivateKey(createPrivateKey(await readFile(key))))
      return [bad(check, `${key} is not the key of ${file}`, "give the key that the certificate was made for")];
    return certificates.map((one) => judge(check, one, now, key === undefined));
  } catch (error) {
    return [bad(check, `${file} cannot be used: ${reasonOf(error)}`, "give certificates, and a key, as PEM files")];
  }
}

function judge(check: string, { subject, validFrom, validTo, ca }: X509Certificate, now: number, authority: boolean) {
  const [from, to] = [Date.parse(validFrom), Date.parse(validTo)];
  const found = `${(subject || "a certificate without a name").replaceAll("\n", ", ")}, until ${day(to)}`;
  if (now > to) return bad(check, found, "it has ended: renew it");
  if (now < from) return bad(check, found, `it begins on ${day(from)}: wait, or set the clock right`);
  if (authority && !ca) return warn(check, found, "it is trusted for itself alone: give the authority that issued it");
  return to - now < SOON_MS ? warn(check, found, "renew it soon") : good(check, found);
}

const day = (ms: number): string => new Date(ms).toISOString().slice(0, 10);

/** Checks that the address can be listened on. @param inUse true when a relay holds the storage of this config open */
export async function checkAddress(plan: Plan, io: CliEnvironment, inUse: boolean): Promise<Finding> {
  const { host, port } = plan.server;
  const asked = `${host}:${port}`;
  const error = await new Promise<NodeJS.ErrnoException | undefined>((resolve) => {
    const server = createServer().once("error", resolve);
    server.listen({ host, port }, () => server.close(() => resolve(undefined)));
  });
  if (error === undefined) return good("address", `${asked} is free`);
  const found = `${asked} cannot be listened on: ${reasonOf(error)}`;
  if (error.code === "EACCES") return bad("address", found, "a port below 1024 needs a right of its own");
  if (error.code !== "EADDRINUSE") return bad("address", found, "give an address of this machine as server.host");
  if (inUse) return good("address", `${asked} is taken, and a relay runs here`);
  const todo = "stop what listens there, or give another server.port";
  // The certificate is not checked: it is for the relay's public name, not for this address.
  const isRelay = await probe(`${localUrl(plan)}/healthz`, io.clock).then(
    ({ status }) => status === 200,
    () => false,
  );
  return isRelay
    ? warn("address", `a relay listens on ${asked}`, `unless it is this one, ${todo}`)
    : bad("address", found, todo);
}
