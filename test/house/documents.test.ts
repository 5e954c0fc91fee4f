// The documents say what the code has: error codes, metrics, words, promises, examples, links.
import { execFile } from "node:child_process";
import { access, mkdir, mkdtemp, readdir, readFile, rm, writeFile, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { VERSION } from "../../core/model/version.ts";
import { PROBLEMS } from "../../core/model/problem.ts";
import { METRIC_TABLE, promName } from "../../core/runtime/observability/metric-table.ts";
import { clientCertificate, testAuthority } from "../support/certificates.ts";
import { runHere } from "../support/command-here.ts";
import { runCommand } from "../support/command.ts";

const root = resolve(import.meta.dirname, "../..");
const read = (file: string): Promise<string> => readFile(join(root, file), "utf8");
const documents = [
  "README.md",
  "CONTRIBUTING.md",
  "deploy/README.md",
  ...(await readdir(join(root, "docs"))).filter((name) => name.endsWith(".md")).map((name) => `docs/${name}`),
];

interface Example {
  readonly file: string;
  readonly line: number;
  /** The language and what is to be done with it: `ts config`, `sh run`. */
  readonly info: string;
  readonly code: string;
}

async function examples(): Promise<readonly Example[]> {
  const found: Example[] = [];
  for (const file of documents) {
    const text = await read(file);
    for (const match of text.matchAll(/^```(.+)\n([\s\S]*?)^```$/gm)) {
      const line = text.slice(0, match.index).split("\n").length;
      found.push({ file, line, info: match[1] as string, code: match[2] as string });
    }
  }
  return found;
}
/** Receivers in other languages: test/documents/verify-guide.test.ts runs them. */
const VERIFY = ["js", "python", "go", "php", "ruby", "java", "csharp", "sh"].map((language) => `${language} verify`);
/** Whole ones, which test/documents/receivers-guide.test.ts runs: it finds every example of their page. */
const WHOLE = (await examples()).filter(({ file }) => file === "docs/receivers.md").map(({ info }) => info);
const RECEIVERS = [...VERIFY, ...WHOLE];
/** Tables and statements of docs/sources.md and docs/outbox.md: the tests of these sources are made of them. */
const AS_THEY_ARE = ["own", "debezium", "mysql"].flatMap((what) => [what, `${what}-insert`]);
const OUTBOX = ["outbox", "insert", "mark", "feed", ...AS_THEY_ARE].map((what) => `sql ${what}`);
/** Of docs/clients.md: test/documents/clients-guide.test.ts runs them. */
const CLIENTS = [
  ...["ts", "python", "go"].map((language) => `${language} client`),
  ...["python", "go", "java"].flatMap((language) => [`sh ${language} install`, `sh ${language} generate`]),
];
const all = await examples();
const of = (info: string): readonly Example[] => all.filter((one) => one.info === info);
const place = ({ file, line }: Example): string => `${file}:${line}`;

describe("CHANGELOG.md", () => {
  it("has what is not released first, then the version of the package, which all that names one names too", async () => {
    const [first, newest] = (await read("CHANGELOG.md")).matchAll(/^## (.+)$/gm).map(([, title]) => title);
    expect([first, newest]).toEqual([
      "Unreleased",
      expect.stringMatching(`^${RegExp.escape(VERSION)} - \\d{4}-\\d\\d-\\d\\d$`),
    ]);
    const named = /(?:"relaybox": "\^|relaybox:)(\d+\.\d+\.\d+)/g;
    for (const folder of ["deploy", "examples"])
      for (const file of await readdir(join(root, folder), { recursive: true })) {
        if (!/\.(?:json|yaml|md)$/.test(file)) continue;
        for (const [, version] of (await read(join(folder, file))).matchAll(named)) expect(version, file).toBe(VERSION);
      }
    const lock = JSON.parse(await read("package-lock.json")) as {
      version: string;
      packages: { "": { version: string } };
    };
    expect([lock.version, lock.packages[""].version]).toEqual([VERSION, VERSION]);
  });
});

describe("docs/errors.md", () => {
  it("has a line for every error code, with its status, and no others", async () => {
    const rows = [...(await read("docs/errors.md")).matchAll(/^- `([A-Z_]+)` (\d+): /gm)];
    const documented = rows.map(([, code, status]) => [code, Number(status)]);
    expect(documented).toEqual(Object.entries(PROBLEMS).map(([code, [status]]) => [code, status]));
  });

  it("shows an answer with the status and the title of its code", () => {
    const shown = of("json").filter(({ file }) => file === "docs/errors.md");
    expect(shown).toHaveLength(1);
    const { code, status, title } = JSON.parse(shown[0]?.code ?? "") as Record<"code" | "status" | "title", unknown>;
    expect([status, title]).toEqual(PROBLEMS[code as keyof typeof PROBLEMS]);
  });
});

describe("docs/metrics.md", () => {
  it("has a line for every metric, with its kind, and no others", async () => {
    const rows = [...(await read("docs/metrics.md")).matchAll(/^- `(relay_[a-z_]+)` (\w+): /gm)];
    const documented = rows.map(([, name, kind]) => `${name} ${kind}`);
    expect(documented.sort()).toEqual(
      Object.entries(METRIC_TABLE)
        .map(([name, figure]) => `${promName(name, figure)} ${figure.kind}`)
        .sort(),
    );
  });
});

describe("docs/glossary.md", () => {
  it("explains at least 40 words, each once, in the order of the alphabet", async () => {
    const parts = (await read("docs/glossary.md")).split(/^## /m).slice(1);
    const words = parts.map((part) => [...part.matchAll(/^- \*\*(.+?)\*\*: /gm)].map(([, word]) => word as string));
    for (const column of words) expect(column).toEqual(column.toSorted(byLetters));
    expect(words.flat().length).toBeGreaterThan(40);
    expect(new Set(words.flat()).size).toBe(words.flat().length);
  });
});

describe("paths in the documents", () => {
  it("are those of files and folders that exist", async () => {
    const path = /(?<![\w./-])(?:core|cli|dashboard|plugins|config|test|tools|bench|docs|deploy|examples)\/[\w./-]*/g;
    for (const file of documents) {
      for (const [code] of (await read(file)).matchAll(/`[^`\n]+`/g)) {
        for (const [named] of code.matchAll(path)) {
          await access(join(root, named)).catch(() => expect.unreachable(`${file} names ${named}`));
        }
      }
    }
  });
});

describe("the promises of the README", () => {
  it("each name the tests that prove them", async () => {
    const [, section = ""] = (await read("README.md")).split(/^## What it promises$/m);
    const promises = (section.split(/^## /m)[0] ?? "").split(/^- /m).slice(1);
    expect(promises.length).toBeGreaterThan(4);
    for (const promise of promises) {
      const [, proofs = ""] = promise.split("Proved by");
      const links = [...proofs.matchAll(/\]\(([^)]+)\)/g)].map(([, target]) => target);
      expect(links.length, promise).toBeGreaterThan(0);
      for (const link of links) expect(link).toMatch(/^test\/.*\.test\.ts$/);
    }
  });
});

describe("links", () => {
  it("between documents lead to files, and to headings, that exist", async () => {
    for (const file of documents) {
      for (const [, target = "", anchor] of (await read(file)).matchAll(
        /\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]*))?\)/g,
      )) {
        const path = target === "" ? file : join(dirname(file), target);
        await access(join(root, path)).catch(() => expect.unreachable(`${file} leads to ${target}`));
        if (anchor !== undefined) expect(await anchorsOf(path), `${file}: ${target}#${anchor}`).toContain(anchor);
      }
    }
  });
});

/** The files that examples name. */
async function writeTlsFiles(dir: string): Promise<void> {
  await mkdir(dir);
  const { cert, key } = await clientCertificate();
  const files = { "ca.pem": (await testAuthority()).ca, "client.pem": cert, "client.key": key };
  for (const [name, text] of Object.entries(files)) await writeFile(join(dir, name), text);
}

describe("examples", () => {
  it("are of kinds that this test knows how to try", () => {
    const known = [
      "sh",
      "sh run",
      "json",
      "json answer",
      "json filter",
      "text",
      "text body",
      "text answer",
      "ts config",
      "ts run",
      "js run",
      "yaml",
      "nginx",
      "ini",
      "http",
      "mermaid",
      "ts storage",
      "ts law",
      // test/plugins/postgres-storage/start.test.ts runs them.
      "ts postgres",
      "sql roles",
      "sql rights",
      ...OUTBOX,
      ...CLIENTS,
      ...RECEIVERS,
    ];
    const odd = all.filter(({ info }) => !known.includes(info)).map((one) => `${place(one)}: ${one.info}`);
    expect(odd).toEqual([]);
  });

  it("in JSON can be parsed", () => {
    for (const one of [...of("json"), ...of("json answer"), ...of("json filter")])
      expect(() => JSON.parse(one.code) as unknown, place(one)).not.toThrow();
  });

  for (const one of of("ts config")) {
    it(`of a config are accepted by relay check (${place(one)})`, async () => {
      await inFolder(async (folder) => {
        const config = join(folder, "relay.config.ts");
        await writeFile(config, one.code);
        if (one.code.includes('"tls/')) await writeTlsFiles(join(folder, "tls"));
        const { code, stderr } = await runHere(["check", "--config", config], { cwd: folder });
        expect(code, stderr).toBe(0);
      });
    });
  }

  for (const one of [...of("ts run"), ...of("js run")]) {
    it(`of code run to their end (${place(one)})`, async () => {
      // Inside the project, so that libraries are found, where neither git nor the linter looks. `relaybox` is the
      // checkout's, as for a config file.
      await mkdir(join(root, "dist"), { recursive: true });
      const folder = await mkdtemp(join(root, "dist/example-"));
      try {
        const file = join(folder, `example.${one.info.startsWith("ts") ? "ts" : "mjs"}`);
        await writeFile(file, one.code);
        const door = JSON.stringify(pathToFileURL(join(root, "config/module-resolver.ts")).href);
        const program = `import { resolveOwnModules } from ${door}; resolveOwnModules(""); await import(${JSON.stringify(pathToFileURL(file).href)});`;
        await promisify(execFile)(process.execPath, ["--input-type=module", "--eval", program], {
          cwd: folder,
          timeout: 120_000,
        });
      } finally {
        await rm(folder, { recursive: true, force: true });
      }
    });
  }

  it("of commands name commands and options that there are", async () => {
    const scripts = Object.keys((JSON.parse(await read("package.json")) as { scripts: object }).scripts);
    const helps = new Map<string, string>();
    await inFolder(async (folder) => {
      for (const one of of("sh")) {
        for (const line of one.code.replaceAll("\\\n", " ").split("\n")) {
          for (const [, script] of line.matchAll(/npm run (?:--silent )?([\w:-]+)/g)) {
            expect(scripts, `${place(one)}: ${line}`).toContain(script);
          }
          // `relay …` as a command of its own, or through npm.
          const call =
            /(?:^|[;&|] *|npx )(?:npm run --silent relay -- |relaybox |relay )((?:[a-z][a-z-]* ?)+)(.*)$/.exec(line);
          if (call === null) continue;
          const words = (call[1] as string).trim().split(" ").slice(0, 2);
          const name = ["api-keys", "subscriptions", "events", "users", "secrets"].includes(words[0] as string)
            ? words.join(" ")
            : (words[0] as string);
          if (!helps.has(name))
            helps.set(name, (await runCommand([...name.split(" "), "--help"], { cwd: folder })).stdout);
          for (const [option] of (call[2] as string).replace(/#.*/, "").matchAll(/--[a-z][a-z-]*/g)) {
            expect(helps.get(name), `${place(one)}: ${line}`).toContain(option);
          }
        }
      }
    });
  });
});

/** The anchors of a document's headings, as the forges that show Markdown name them. */
async function anchorsOf(file: string): Promise<readonly string[]> {
  const headings = (await read(file)).replaceAll(/^```[\s\S]*?^```$/gm, "").matchAll(/^#+ (.+)$/gm);
  return [...headings].map(([, text = ""]) =>
    text
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
      .replaceAll(" ", "-"),
  );
}

/** As a dictionary sorts: marks and capitals do not count. */
function byLetters(a: string, b: string): number {
  const plain = (word: string): string => word.toLowerCase().replaceAll(/[^a-z ]/g, "");
  return plain(a) < plain(b) ? -1 : 1;
}

async function inFolder(use: (folder: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "relay-example-"));
  // An example may use a library that its reader has installed.
  await symlink(join(root, "node_modules"), join(folder, "node_modules"));
  try {
    await use(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
