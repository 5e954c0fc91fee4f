/** Checks the data folder: write access, modes of secret files, free space, and its clock. */
import { constants } from "node:fs";
import { access, mkdtemp, readdir, rmdir, stat, statfs } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Plan } from "../../ports/plan.ts";
import type { CliEnvironment } from "../support/environment.ts";
import { bad, good, reasonOf, warn, type DoctorFinding } from "./finding.ts";

const MIB = 1024 * 1024;
const LEAST_FREE = 100 * MIB;
const LITTLE_FREE = 1_024 * MIB;
const LEAST_FILES = 1_000;
/** Clocks that differ by more are wrong, ms. */
const APART_MS = 2_000;

export async function checkFolder(
  { dataDir }: Plan,
  { clock }: Pick<CliEnvironment, "clock">,
): Promise<DoctorFinding[]> {
  const there = await stat(dataDir).catch(() => undefined);
  if (there === undefined) {
    const parent = await nearest(dataDir);
    const writable = await access(parent, constants.W_OK).then(
      () => true,
      () => false,
    );
    const folder = writable
      ? good("folder", `${dataDir} is made at the first start`)
      : bad(
          "folder",
          `${dataDir} is not there, and ${parent} may not be written to`,
          `make it, owned by the relay's user, mode 0700`,
        );
    return [folder, await checkSpace(parent)];
  }
  if (!there.isDirectory()) return [bad("folder", `${dataDir} is no folder`, "give another dataDir (RELAY_DATA_DIR)")];
  return [
    await checkWriting(dataDir),
    ...(await checkModes(dataDir)),
    await checkSpace(dataDir),
    await checkClock(dataDir, clock.now),
  ];
}

async function nearest(path: string): Promise<string> {
  for (let at = dirname(path); ; at = dirname(at)) {
    if ((await stat(at).catch(() => undefined)) !== undefined || at === dirname(at)) return at;
  }
}

async function checkWriting(dir: string): Promise<DoctorFinding> {
  try {
    await rmdir(await mkdtemp(join(dir, ".doctor-")));
    return good("folder", `${dir} may be written to`);
  } catch (error) {
    const todo = "make it writable for the relay's user (and mount it read-write)";
    return bad("folder", `${dir} may not be written to (${reasonOf(error)})`, todo);
  }
}

/** Files with secrets must be readable by their owner only. */
async function checkModes(dir: string): Promise<DoctorFinding[]> {
  if (process.platform === "win32") return [];
  const keys = join(dir, "keys");
  const names = await readdir(keys).catch(() => []);
  const secret = [
    keys,
    ...names.map((name) => join(keys, name)),
    ...["relay.db", "setup-code"].map((name) => join(dir, name)),
  ];
  const open: DoctorFinding[] = [];
  for (const path of secret) {
    const found = await stat(path).catch(reasonOf);
    if (found === "ENOENT") continue;
    if (typeof found === "string")
      return [...open, warn("modes", `${path} cannot be looked at (${found})`, "run doctor as the relay's user")];
    const wanted = found.isDirectory() ? "700" : "600";
    if ((found.mode & 0o077) !== 0) {
      const mode = (found.mode & 0o777).toString(8);
      open.push(bad("modes", `${path} may be read by others (mode 0${mode})`, `chmod ${wanted} ${path}`));
    } else if (process.getuid !== undefined && found.uid !== process.getuid()) {
      const whose = `${path} belongs to user ${found.uid}, and this is user ${process.getuid()}`;
      open.push(warn("modes", whose, "run doctor as the relay's user, or chown the folder to it"));
    }
  }
  const outer = await stat(dir);
  if ((outer.mode & 0o022) !== 0) {
    // A mounted volume often belongs to a group (Kubernetes' fsGroup): a warning, not a fault.
    const say = (outer.mode & 0o002) !== 0 ? bad : warn;
    const mode = (outer.mode & 0o777).toString(8);
    open.push(say("modes", `${dir} may be written to by others (mode 0${mode})`, `chmod 700 ${dir}`));
  }
  return open.length > 0 ? open : [good("modes", "keys and data are their owner's alone")];
}

async function checkSpace(dir: string): Promise<DoctorFinding> {
  const { bavail, blocks, bsize, ffree, files } = await statfs(dir);
  const free = bavail * bsize;
  const told = `${size(free)} free of ${size(blocks * bsize)}`;
  const todo = "free space there, or shorten retention; a full disk refuses events with 503 and loses none";
  if (free < LEAST_FREE) return bad("disk", told, todo);
  if (files > 0 && ffree < LEAST_FILES) return bad("disk", `${told}, but room for ${ffree} files only`, todo);
  return free < LITTLE_FREE ? warn("disk", told, todo) : good("disk", told);
}

/** Compares the time of a new folder, and of the newest file there, with this machine's clock. */
async function checkClock(dir: string, now: () => number): Promise<DoctorFinding> {
  const todo = "set the clock right (ntp): ids, time-outs and tokens go by it";
  try {
    const probe = await mkdtemp(join(dir, ".doctor-"));
    const { mtimeMs } = await stat(probe);
    const apart = mtimeMs - now();
    await rmdir(probe);
    if (Math.abs(apart) > APART_MS) return bad("clock", `the file system is ${seconds(apart)} of this machine`, todo);
    const names = await readdir(dir);
    const times = await Promise.all(
      names.map((name) =>
        stat(join(dir, name))
          .then((one) => one.mtimeMs)
          .catch(() => 0),
      ),
    );
    const ahead = Math.max(0, ...times) - now();
    return ahead > APART_MS
      ? bad("clock", `the newest file there is ${seconds(ahead)} of now: the clock was set back`, todo)
      : good("clock", "the file system agrees with this machine");
  } catch (error) {
    return warn("clock", `it cannot be compared (${reasonOf(error)})`, "make the folder writable first");
  }
}

export const seconds = (ms: number): string => `${(Math.abs(ms) / 1_000).toFixed(1)} s ${ms > 0 ? "ahead" : "behind"}`;

const size = (bytes: number): string =>
  bytes >= 1_024 * MIB ? `${(bytes / MIB / 1_024).toFixed(1)} GiB` : `${Math.round(bytes / MIB)} MiB`;
