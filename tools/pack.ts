// Makes `dist/package`, which is what `npm pack` and `npm publish` take: the checkout's files as JavaScript with their types,
// under the same names, because Node strips no types inside node_modules. Runs by itself before both.
import { execFile } from "node:child_process";
import { cp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { EMBEDDED, packAssets } from "../dashboard/assets.ts";

const root = resolve(import.meta.dirname, "..");
const out = join(root, "dist/package");

await rm(out, { recursive: true, force: true });
await compile();
await nameTypes();
await carry();
await describe();

/** Makes one file of JavaScript for each of ours, and the types of what the package exports. An error in any of them ends this. */
async function compile(): Promise<void> {
  const tsc = join(root, "node_modules/.bin/tsc");
  for (const args of [["tools/tsconfig.package.json"], ["tools/tsconfig.types.json", "--emitDeclarationOnly"]])
    await promisify(execFile)(tsc, ["-p", ...args], { cwd: root }).catch((error: Error & { stdout?: string }) => {
      throw new Error(`the types do not hold:\n${error.stdout ?? ""}`, { cause: error });
    });
}

/** The compiler rewrites `./x.ts` to `./x.js` in programs but not in types. */
async function nameTypes(): Promise<void> {
  for (const name of await readdir(out, { recursive: true })) {
    if (!name.endsWith(".d.ts")) continue;
    const text = await readFile(join(out, name), "utf8");
    await writeFile(join(out, name), text.replaceAll(/((?:from|import) ?\(?")(\.[^"]+)\.ts"/g, '$1$2.js"'));
  }
}

/** Copies the files that are no modules: the command's entry, the config that `relay init` writes, the page. */
async function carry(): Promise<void> {
  await cp(join(root, "relay.config.ts"), join(out, "relay.config.ts"));
  const entry = await readFile(join(root, "cli/relay.mjs"), "utf8");
  await writeFile(join(out, "cli/relay.mjs"), entry.replace("./program.ts", "./program.js"), { mode: 0o755 });
  await writeFile(join(out, "dashboard", EMBEDDED), await packAssets());
}

/** The version is read from here, and that all of it are ES modules. */
async function describe(): Promise<void> {
  const { name, version, type } = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as Record<
    string,
    string
  >;
  await writeFile(
    join(out, "package.json"),
    `${JSON.stringify({ name, version, type, private: true }, undefined, 2)}\n`,
  );
}
