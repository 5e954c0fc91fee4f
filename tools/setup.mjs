// Installs from Debian's packages what the tests drive (tools/programs.json), where it may. Never fails: a test that
// misses its program says so itself. Plain JavaScript, so that any Node from 20 on runs it.
import { spawnSync } from "node:child_process";
import { accessSync, constants, readFileSync } from "node:fs";
import { delimiter, join } from "node:path";

const programs = JSON.parse(readFileSync(new URL("./programs.json", import.meta.url), "utf8"));
const purpose = process.argv[2] ?? "tests";
const say = (text) => process.stderr.write(`setup: ${text}\n`);

/** True when a command is here; Debian keeps some servers out of the PATH of a plain user. */
function found(command) {
  return [...(process.env.PATH ?? "").split(delimiter), "/usr/sbin", "/sbin"].some((folder) => {
    try {
      accessSync(join(folder, command), constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

const absent = () => Object.entries(programs).filter(([, one]) => one.for === purpose && !one.commands.some(found));
const names = (list) => list.map(([name]) => name).join(", ");

/** The words that make a command run as root, or undefined where that would need a password. */
function asRoot() {
  if (process.getuid?.() === 0) return [];
  return found("sudo") && spawnSync("sudo", ["-n", "true"], { stdio: "ignore" }).status === 0
    ? ["sudo", "-n"]
    : undefined;
}

/** True when it worked. RUNLEVEL=1 keeps a package from starting its server. */
function apt(prefix, args) {
  const [command, ...rest] = [
    ...prefix,
    "env",
    "DEBIAN_FRONTEND=noninteractive",
    "RUNLEVEL=1",
    "apt-get",
    "-q",
    ...args,
  ];
  const { status } = spawnSync(command, rest, { stdio: ["ignore", "ignore", "ignore"], timeout: 300_000 });
  return status === 0;
}

function install(missing) {
  if (process.env.RELAY_SETUP === "off") return "RELAY_SETUP=off forbids it";
  if (!found("apt-get")) return "there is no apt-get here";
  const prefix = asRoot();
  if (prefix === undefined) return "it needs root, or sudo without a password";
  say(`installing ${names(missing)} with apt-get (RELAY_SETUP=off forbids it)`);
  const packages = missing.map(([, one]) => one.package);
  const add = (list) =>
    apt(prefix, ["install", "-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=120", ...list]);
  if (!add(packages)) {
    apt(prefix, ["update"]);
    // One package that is not to be had must not keep the others out.
    if (!add(packages)) for (const one of packages) add([one]);
  }
  return "apt-get could not";
}

const missing = absent();
if (missing.length > 0) {
  const why = install(missing);
  const left = absent();
  if (left.length > 0) say(`without ${names(left)} (${why}); the tests that need them are skipped and say so`);
}
