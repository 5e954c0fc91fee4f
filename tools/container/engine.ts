// Builds and runs images without a daemon or a registry: buildah and podman on a base image made here.
import { execFile, spawnSync } from "node:child_process";
import { access, cp, mkdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
const ROOT = resolve(import.meta.dirname, "../..");
const BASE = "localhost/relay-node:check";
/** Limits below those of the machine: a container may not raise them here. */
const LIMITS = ["--ulimit", "nofile=20000:20000", "--ulimit", "nproc=10000:10000"];

export interface Container {
  readonly name: string;
  /** Runs a command in it; resolves to its stdout. */
  exec(...args: readonly string[]): Promise<string>;
  /** Runs the image's own health check; resolves to its exit code. */
  health(): Promise<number>;
  /** The user that it runs as, on this machine. */
  uid(): Promise<number>;
  logs(): Promise<string>;
  /** SIGTERM, and SIGKILL after ten seconds. Resolves to the exit code. */
  stop(): Promise<number>;
  kill(): Promise<void>;
  remove(): Promise<void>;
}

export interface Engine {
  build(tag: string): Promise<void>;
  /** Size of an image with all its layers, in MB. */
  size(tag: string): Promise<number>;
  start(
    tag: string,
    name: string,
    mounts: Readonly<Record<string, string>>,
    env: Readonly<Record<string, string>>,
  ): Promise<Container>;
}

/** Containers cannot be made here, whatever is in them. */
export class NoEngine extends Error {
  override readonly name = "NoEngine";
}

/**
 * @throws NoEngine when programs are missing or the machine forbids containers
 * @param folder where images and layers are kept; a later check with the same folder need not make the base again
 */
export async function openEngine(folder: string): Promise<Engine> {
  const store = ["--root", join(folder, "store"), "--runroot", join(folder, "run"), "--storage-driver", "vfs"];
  if (process.getuid?.() !== 0) throw new NoEngine("it needs root");
  await mkdir(folder, { recursive: true });
  const buildah = (...args: readonly string[]) =>
    run("buildah", [...store, ...args], { maxBuffer: 1 << 26, timeout: 600_000 });
  const podman = (...args: readonly string[]) =>
    run("podman", [...store, "--runtime", "/usr/sbin/runc", ...args], { maxBuffer: 1 << 26, timeout: 120_000 });
  try {
    await makeBase(folder, buildah);
    await podman("run", "--rm", "--network", "host", ...LIMITS, BASE, "/bin/true");
  } catch (error) {
    const { code, stderr = "" } = error as NodeJS.ErrnoException & { stderr?: string };
    const reason = code === "ENOENT" ? (error as Error).message : (stderr.trim().split("\n").at(-1) ?? "");
    throw new NoEngine(reason === "" ? String(error) : reason, { cause: error });
  }
  return {
    async build(tag) {
      // It may hold the tokens of this user's registries, and the folder of the images stays.
      const npmrc = join(folder, "npmrc");
      const mounts = await buildMounts(npmrc);
      const args = [
        "--isolation",
        "chroot",
        "--format",
        "docker",
        "--network",
        "host",
        "--build-arg",
        `NODE_IMAGE=${BASE}`,
      ];
      try {
        await buildah("bud", ...args, ...mounts, "-t", tag, ROOT);
      } finally {
        await rm(npmrc, { force: true });
      }
    },
    size: async (tag) => Number((await podman("image", "inspect", "--format", "{{.Size}}", tag)).stdout) / 1e6,
    async start(tag, name, mounts, env) {
      const args = Object.entries(mounts).flatMap(([from, to]) => ["--volume", `${from}:${to}`]);
      for (const [key, value] of Object.entries(env)) args.push("--env", `${key}=${value}`);
      const safe = ["--read-only", "--cap-drop", "all", "--security-opt", "no-new-privileges", ...LIMITS];
      await podman("run", "--detach", "--name", name, "--network", "host", ...safe, ...args, tag);
      return {
        name,
        exec: async (...command) => (await podman("exec", name, ...command)).stdout,
        health: () =>
          podman("healthcheck", "run", name).then(
            () => 0,
            (error: { code?: number }) => error.code ?? -1,
          ),
        uid: async () => {
          const { stdout } = await podman("inspect", "--format", "{{.State.Pid}}", name);
          return (await stat(`/proc/${stdout.trim()}`)).uid;
        },
        logs: async () => {
          const { stdout, stderr } = await podman("logs", name);
          return stdout + stderr;
        },
        stop: async () => {
          await podman("stop", "--time", "10", name);
          return Number((await podman("inspect", "--format", "{{.State.ExitCode}}", name)).stdout);
        },
        kill: async () => {
          await podman("kill", "--signal", "KILL", name);
          await podman("wait", name);
        },
        remove: async () => void (await podman("rm", "--force", name)),
      };
    },
  };
}

/** Debian's smallest system with `strip`, this Node and this npm: what the build needs of the public `node` image, made without a registry. */
async function makeBase(
  folder: string,
  buildah: (...args: readonly string[]) => Promise<{ readonly stdout: string }>,
): Promise<void> {
  const known = await buildah("images", "--quiet", BASE).catch(() => ({ stdout: "" }));
  if (known.stdout.trim() !== "") return;
  const context = join(folder, "base");
  await rm(context, { recursive: true, force: true });
  await mkdir(context, { recursive: true });
  const packages = "--include=binutils,ca-certificates,libatomic1,libstdc++6";
  await run("mmdebstrap", ["--variant=minbase", packages, "bookworm", join(context, "base.tar")], { timeout: 600_000 });
  await cp(process.execPath, join(context, "node"), { dereference: true });
  await cp(npmFolder(), join(context, "npm"), { recursive: true, dereference: true });
  const lines = [
    "FROM scratch",
    "ADD base.tar /",
    "COPY node /usr/local/bin/node",
    "COPY npm /usr/local/lib/node_modules/npm",
    "RUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm && useradd --uid 1000 node",
  ];
  await writeFile(join(context, "Containerfile"), lines.join("\n"));
  await buildah("bud", "--isolation", "chroot", "--format", "docker", "-t", BASE, context);
  await rm(context, { recursive: true, force: true });
}

/** npm's own folder: npm names it to its scripts, else the shell knows. */
function npmFolder(): string {
  const script = process.env["npm_execpath"];
  if (script?.endsWith("npm-cli.js") === true) return dirname(dirname(script));
  const { stdout } = spawnSync("sh", ["-c", 'readlink -f "$(command -v npm)"'], { encoding: "utf8" });
  return dirname(dirname(stdout.trim()));
}

/**
 * npm in the build reads this machine's settings and trusts what this machine trusts; neither stays in the image.
 * @param file where the settings for the build are written
 */
async function buildMounts(file: string): Promise<readonly string[]> {
  const mounts: string[] = [];
  const own = join(process.env["HOME"] ?? "/root", ".npmrc");
  let npmrc = await readFile(own, "utf8").catch(() => "");
  const ca = process.env["NODE_EXTRA_CA_CERTS"] ?? process.env["SSL_CERT_FILE"];
  if (
    ca !== undefined &&
    (await access(ca).then(
      () => true,
      () => false,
    ))
  ) {
    mounts.push("--volume", `${ca}:/etc/build-ca.pem:ro`);
    npmrc += "\ncafile=/etc/build-ca.pem\n";
  }
  await writeFile(file, npmrc, { mode: 0o600 });
  mounts.push("--volume", `${file}:/root/.npmrc:ro`);
  return mounts;
}
