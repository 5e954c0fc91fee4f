// `npm run container-check`: builds the Dockerfile and runs it as an operator would, without an engine or a registry: read-only,
// no capabilities, not root. Publishes and receives, restarts, kills, and moves to fresh containers with the same data.
// Needs root, and the programs that `node tools/setup.mjs container` installs; without them it ends with 77.
import { chmod, chown, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { NoEngine, openEngine, type Container } from "./container/engine.ts";
import { openReceiver } from "./container/receiver.ts";
import { freePort } from "./free-port.ts";

const TAG = "localhost/relaybox:check";
const KEY = "key_container";
const RELAY = "/relay";
/** From a fresh container to its first signed delivery. */
const FIRST_DELIVERY_MS = 10_000;
const SIZE_MB = 200;
/** The exit code of a check that cannot be made here. */
const SKIPPED = 77;

const began = process.hrtime.bigint();
const seconds = (): string => `${(Number(process.hrtime.bigint() - began) / 1e9).toFixed(1)} s`.padStart(8);
const say = (text: string): void => console.log(`${seconds()}  ${text}`);

function must(holds: boolean, what: string): void {
  if (!holds) throw new Error(what);
  say(what);
}

const folder = await mkdtemp(join(tmpdir(), "relay-container-"));
const images = resolve(process.argv[2] ?? join(tmpdir(), "relay-container-images"));
const running = new Set<Container>();
const receiver = await openReceiver();
try {
  await check();
  console.log("the container is as it should be");
} catch (error) {
  console.error(error instanceof NoEngine ? `not checked: ${error.message}` : error);
  for (const container of running) console.error(await container.logs().catch(() => ""));
  process.exitCode = error instanceof NoEngine ? SKIPPED : 1;
} finally {
  for (const container of running) await container.remove().catch(() => undefined);
  await receiver.close();
  await rm(folder, { recursive: true, force: true });
}

async function check(): Promise<void> {
  const engine = await openEngine(images);
  const port = await freePort();
  const settings = await operatorFiles();
  const data = join(folder, "data");
  await mkdir(data, { mode: 0o700 });
  await chown(data, 1000, 1000);
  say("building");
  await engine.build(TAG);
  const size = await engine.size(TAG);
  must(size <= SIZE_MB, `the image has ${size.toFixed(0)} MB in all`);

  const start = async (name: string): Promise<Container> => {
    const env = { RELAY_PORT: String(port) };
    const container = await engine.start(
      TAG,
      `${name}-${process.pid}`,
      { [data]: "/data", [settings]: "/etc/relay:ro" },
      env,
    );
    running.add(container);
    await healthy(port);
    return container;
  };
  const end = async (container: Container): Promise<void> => {
    await container.remove();
    running.delete(container);
  };

  const from = process.hrtime.bigint();
  const first = await start("relay-first");
  const relay = async (container: Container, ...args: readonly string[]): Promise<Record<string, unknown>> =>
    JSON.parse(await container.exec(RELAY, ...args, "--key", KEY, "--json")) as Record<string, unknown>;
  const made = await relay(first, "subscriptions", "create", receiver.url, "--events", "container:checked");
  receiver.trust(String(made["secret"]));
  const publish = async (container: Container, id: string): Promise<void> => {
    await relay(container, "publish", "container:checked", "--id", id, "--data", '{"n":1.0}');
    await receiver.received(id, 10_000);
  };
  await publish(first, "evt-first");
  const tookMs = Number(process.hrtime.bigint() - from) / 1e6;
  must(tookMs <= FIRST_DELIVERY_MS, `a fresh container delivered, signed, after ${tookMs.toFixed(0)} ms`);
  must((await first.health()) === 0, "its health check passes");
  must((await first.uid()) === 1000, "it is not root");
  const written = await fails(first.exec(RELAY, "start", "--port", "0", "--data-dir", "/elsewhere"));
  must(written.includes("/elsewhere"), "it cannot write outside /data");
  must((await fails(first.exec("/bin/sh", "-c", "true"))) !== "", "there is no shell");

  must((await first.stop()) === 0, "SIGTERM ends it in time, with 0");
  await end(first);
  const second = await start("relay-second");
  await publish(second, "evt-second");
  say("a second container on the same data delivers to the subscription of the first");
  await second.kill();
  await end(second);
  const third = await start("relay-third");
  await publish(third, "evt-third");
  const events: readonly string[] =
    (await third.exec(RELAY, "events", "list", "--key", KEY, "--json")).match(/evt-\w+/g) ?? [];
  must(
    ["evt-first", "evt-second", "evt-third"].every((id) => events.includes(id)),
    "after kill -9 all events are still there",
  );
  must((await third.stop()) === 0, "and it ends well");
}

/** Returns the message of a command that must fail; empty when it did not fail. */
function fails(command: Promise<string>): Promise<string> {
  return command.then(
    () => "",
    (error: Error & { stderr?: string }) => error.stderr ?? error.message,
  );
}

/** Files that an operator mounts at /etc/relay. */
async function operatorFiles(): Promise<string> {
  const settings = join(folder, "etc");
  await mkdir(settings);
  await writeFile(join(settings, "ca.pem"), receiver.ca);
  await writeFile(
    join(settings, "relay.config.ts"),
    `import { defineRelay } from "relaybox";
export default defineRelay({ guard: { allow: ["127.0.0.1:*"], ca: "./ca.pem" } });\n`,
  );
  await chmod(folder, 0o755);
  return settings;
}

async function healthy(port: number): Promise<void> {
  const until = Date.now() + 20_000;
  for (;;) {
    const status = await fetch(`http://127.0.0.1:${port}/healthz`).then(
      (answer) => answer.status,
      () => 0,
    );
    if (status === 200) return;
    if (Date.now() > until) throw new Error("the container does not become healthy");
    await new Promise((done) => setTimeout(done, 50));
  }
}
