/**
 * Bundles the command before the tests, for the relays that they start as processes: a start takes half the CPU time then,
 * and there are hundreds. The README's quick start is tried with the sources, as those who have a checkout run them.
 */
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join, relative, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { rolldown, type Plugin } from "rolldown";
import { trimmed } from "../cli/package/pieces.ts";

const root = resolve(import.meta.dirname, "..");
/** In the checkout, for the libraries that are not bundled. One folder a run, named after its process. */
const all = join(root, "node_modules/.cache/packed-relay");
const out = join(all, String(process.pid));

/** The command, what a config file imports, and what runs in a thread or a process of its own. */
const ENTRIES = [
  ...["cli/program", "config/index", "core/client/index", "core/signing/verify", "test/conformance/index"],
  ...["cli/support/transform-entry", "cli/support/transform-processes", "plugins/storage/sqlite/worker"],
];
/** These look beside themselves for an entry. All others look for files of the checkout. */
const NEIGHBOURS = new Set([
  ...["config/module-resolver.ts", "cli/local/relay-process.ts"],
  ...["cli/support/transform-processes.ts", "plugins/storage/sqlite/thread.ts"],
]);

/** Each file of ours goes on to know where it stands. */
const places: Plugin = {
  name: "places",
  transform: {
    filter: { id: /\.ts$/, code: /import\.meta/ },
    handler(code, id) {
      const name = relative(root, id);
      if (name.startsWith("node_modules")) return undefined;
      const file = NEIGHBOURS.has(name) ? join(out, name.replace(/\.ts$/, ".js")) : id;
      return code
        .replaceAll("import.meta.url", JSON.stringify(pathToFileURL(file).href))
        .replaceAll("import.meta.dirname", JSON.stringify(resolve(file, "..")));
    },
  },
};

export async function setup(): Promise<void> {
  await removeLeft();
  const { peerDependencies } = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as {
    readonly peerDependencies: Readonly<Record<string, string>>;
  };
  const optional = Object.keys(peerDependencies);
  const bundle = await rolldown({
    input: Object.fromEntries(ENTRIES.map((name) => [name, join(root, `${name}.ts`)])),
    cwd: root,
    platform: "node",
    external: (id) => optional.some((name) => id === name || id.startsWith(`${name}/`)),
    plugins: [trimmed, places],
    onLog: () => undefined,
  });
  await bundle.write({ dir: out, format: "esm", entryFileNames: "[name].js", chunkFileNames: "parts/[hash].js" });
  await bundle.close();
  const entry = await readFile(join(root, "cli/relay.mjs"), "utf8");
  const command = join(out, "cli/relay.mjs");
  await writeFile(command, entry.replace("./program.ts", "./program.js"));
  await writeFile(join(out, "package.json"), '{ "type": "module" }\n');
  process.env["RELAY_TEST_COMMAND"] = command;
}

export async function teardown(): Promise<void> {
  await rm(out, { recursive: true, force: true });
}

/** Removes what a run that was killed has left. */
async function removeLeft(): Promise<void> {
  await mkdir(all, { recursive: true });
  for (const pid of await readdir(all)) {
    try {
      process.kill(Number(pid), 0);
    } catch {
      await rm(join(all, pid), { recursive: true, force: true });
    }
  }
}
