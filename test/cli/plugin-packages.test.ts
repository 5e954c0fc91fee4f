// relay init --plugin: what it writes is a package of examples/, and another name reaches every place of it.
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { PLUGIN_KINDS } from "../../cli/package/plugin-packages.ts";
import { VERSION } from "../../core/model/version.ts";
import { ends } from "../support/command-stage.ts";
import { runHere } from "../support/command-here.ts";
import { testFolder } from "../support/folder.ts";

const EXAMPLES = resolve(import.meta.dirname, "../../examples");
const SETTINGS = ["tsconfig.json", "tsconfig.build.json"];

/** Every file in the folder by its path. */
function textsIn(folder: string): Record<string, string> {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((one) => one.isFile());
  const paths = files.map(({ parentPath, name }) => join(parentPath, name).slice(folder.length + 1));
  return Object.fromEntries(paths.map((path) => [path, readFileSync(join(folder, path), "utf8")]));
}

describe("relay init --plugin", () => {
  for (const kind of PLUGIN_KINDS) {
    it(`writes examples/plugin-${kind} with all its files`, async () => {
      const cwd = testFolder();
      expect(await runHere(["init", "--plugin", kind], { cwd })).toMatchObject({ code: 0, stdout: "" });
      const settings = textsIn(join(EXAMPLES, "plugin-settings"));
      expect(Object.keys(settings).sort()).toEqual(SETTINGS.toSorted());
      const { "manifest.json": manifest, ...own } = textsIn(join(EXAMPLES, `plugin-${kind}`));
      expect(textsIn(join(cwd, `my-${kind}`))).toEqual({
        ".gitignore": "node_modules\ndist\n",
        ...settings,
        ...own,
        "package.json": manifest,
      });
    });

    it(`gives the ${kind} the name of its folder everywhere`, async () => {
      const cwd = testFolder();
      await runHere(["init", "--plugin", kind, "some/in-2-words"], { cwd });
      const texts = textsIn(join(cwd, "some/in-2-words"));
      for (const [path, text] of Object.entries(texts))
        expect(text, path).not.toMatch(/my[-_]?(?:source|queue|transport|bus|storage|auth|observer)/i);
      expect(texts["src/index.ts"]).toContain("export function in2Words(");
      expect(texts["README.md"]).toContain('import { in2Words } from "in-2-words";');
      const { name, devDependencies, peerDependencies } = JSON.parse(texts["package.json"] as string) as {
        name: string;
        devDependencies: Record<string, string>;
        peerDependencies: Record<string, string>;
      };
      expect([name, devDependencies["relaybox"], peerDependencies["relaybox"]]).toEqual([
        "in-2-words",
        `^${VERSION}`,
        `^${VERSION}`,
      ]);
    });
  }

  it("refuses a kind that there is not, a folder that names no package, and one that is not empty", async () => {
    const cwd = testFolder();
    expect(await runHere(["init", "--plugin", "cache"], { cwd })).toMatchObject(
      ends(64, "source, queue, transport, bus, storage, auth, observer"),
    );
    expect(await runHere(["init", "--plugin", "auth", "My-Auth"], { cwd })).toMatchObject({ code: 64 });
    expect(readdirSync(cwd)).toEqual([]);
    await runHere(["init", "--plugin", "auth"], { cwd });
    expect(await runHere(["init", "--plugin", "auth"], { cwd })).toMatchObject({ code: 1 });
    expect(await runHere(["init", "--plugin", "auth", "--force"], { cwd })).toMatchObject({ code: 0 });
  });
});
