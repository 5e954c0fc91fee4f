// Installs what the tests drive, where it may: programs from Debian's packages (tools/programs.json), moto from PyPI
// (tools/moto.txt), and the fake of Pub/Sub, built with Go (tools/pubsub-fake). Never fails: a test that misses its program says so
// itself. Plain JavaScript, so that any Node from 20 on runs it.
import { spawnSync } from "node:child_process";
import {
  accessSync,
  constants,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
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

/** Installs moto beside the packages of npm, and keeps with it the list that it was installed by. */
function installMoto() {
  const list = new URL("./moto.txt", import.meta.url).pathname;
  const cache = new URL("../node_modules/.cache/", import.meta.url).pathname;
  const [home, made] = [join(cache, "moto"), join(cache, `moto-${process.pid}`)];
  const stamp = join(home, "moto.txt");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === readFileSync(list, "utf8")) return;
  if (process.env.RELAY_SETUP === "off") return say("without moto (RELAY_SETUP=off forbids it)");
  say("installing moto from PyPI (RELAY_SETUP=off forbids it)");
  const args = ["-m", "pip", "install", "-q", "--no-deps", "--target", made, "-r", list];
  const { status } = spawnSync("python3", args, { stdio: "ignore", timeout: 300_000 });
  try {
    if (status !== 0) return say("without moto (pip could not); the tests of SQS and S3 are skipped and say so");
    rmSync(home, { recursive: true, force: true });
    cpSync(list, join(made, "moto.txt"));
    renameSync(made, home);
  } catch (error) {
    say(`without moto (${error})`);
  } finally {
    rmSync(made, { recursive: true, force: true });
  }
}
/** Builds the fake of Pub/Sub where Go is, and keeps with it the sums of the modules that it was built from. */
function buildPubSubFake() {
  const home = new URL("./pubsub-fake/", import.meta.url).pathname;
  const cache = new URL("../node_modules/.cache/", import.meta.url).pathname;
  const [fake, made] = [join(cache, "pubsub-fake"), join(cache, `pubsub-fake-${process.pid}`)];
  const stamp = `${fake}.sum`;
  const source = ["main.go", "go.mod", "go.sum"].map((name) => readFileSync(join(home, name), "utf8")).join("");
  if (existsSync(fake) && existsSync(stamp) && readFileSync(stamp, "utf8") === source) return;
  const without = (why) => say(`without the fake of Pub/Sub (${why}); the tests that need it are skipped and say so`);
  if (process.env.RELAY_SETUP === "off") return without("RELAY_SETUP=off forbids it");
  if (!found("go")) return without("there is no Go here");
  say("building the fake of Pub/Sub with Go (RELAY_SETUP=off forbids it)");
  const args = ["build", "-mod=readonly", "-trimpath", "-ldflags=-s -w", "-o", made, "."];
  const env = { ...process.env, GOTOOLCHAIN: "local", GOWORK: "off", CGO_ENABLED: "0" };
  const { status } = spawnSync("go", args, { cwd: home, env, stdio: "ignore", timeout: 600_000 });
  try {
    if (status !== 0) return without("go build could not");
    mkdirSync(cache, { recursive: true });
    renameSync(made, fake);
    writeFileSync(stamp, source);
  } catch (error) {
    without(error);
  } finally {
    rmSync(made, { force: true });
  }
}
if (purpose === "tests") {
  installMoto();
  buildPubSubFake();
}
