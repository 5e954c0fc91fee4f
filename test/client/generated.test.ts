// The types of the client are those of the document, made by openapi-typescript. RELAY_RECORD=write writes them anew.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { expect, it } from "vitest";
import { PROBLEMS } from "../../core/model/problem.ts";
import { startRelay } from "../support/relay.ts";

interface Operation {
  readonly operationId: string;
  readonly security?: readonly Readonly<Record<string, unknown>>[];
  readonly parameters: unknown;
  readonly callbacks?: unknown;
  readonly responses: Readonly<Record<string, { readonly content?: Readonly<Record<string, unknown>> }>>;
}
interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
}
interface Generator {
  readonly default: (document: unknown, options?: object) => Promise<readonly unknown[]>;
  readonly astToString: (nodes: readonly unknown[]) => string;
}

const file = new URL("../../core/client/generated.ts", import.meta.url);

/** Of each path, those operations that take a token. What each is refused with is the same for all: a problem. */
function ownPaths({ paths }: Document) {
  const all = Object.entries(paths).map(([path, item]) => {
    const own = Object.entries(item).filter(
      ([, { security }]) => security === undefined || security.some((one) => "publish" in one),
    );
    const kept = own.map(([method, { callbacks: _callbacks, ...one }]) => {
      const good = Object.entries(one.responses).filter(([status]) => Number(status) < 300);
      return [method, { ...one, responses: Object.fromEntries(good) }] as const;
    });
    return [path, Object.fromEntries(kept)] as const;
  });
  return Object.fromEntries(all.filter(([, item]) => Object.keys(item).length > 0));
}

async function generated(): Promise<string> {
  await using relay = await startRelay();
  const document = (await relay.call("GET", "/openapi.json")).json as Document;
  const paths = ownPaths(document);
  const require = createRequire(new URL("../../tools/openapi-types/package.json", import.meta.url));
  const made = require("openapi-typescript") as Generator;
  const types = made.astToString(await made.default({ ...document, paths }));
  const routes = Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).flatMap(([method, { operationId, responses }]) => {
      // The client has a method of its own for it.
      if (operationId === "publishEvents") return [];
      const [type = "application/json"] = Object.values(responses).flatMap(({ content = {} }) => Object.keys(content));
      const stream = type === "application/json" ? "" : ` ${type}`;
      return `  ${operationId}: "${method.toUpperCase()} ${path}${stream}",`;
    }),
  );
  const codes = Object.keys(PROBLEMS).map((code) => `  | "${code}"`);
  return [
    "// Generated from /openapi.json by test/client/generated.test.ts (RELAY_RECORD=write); not to be changed by hand.",
    "/** The method and the path of each operation, and the type of what it streams. */",
    `export const OPERATIONS = {\n${routes.toSorted().join("\n")}\n} as const;`,
    `/** The codes of problems. */\nexport type ProblemCode =\n${codes.join("\n")};\n`,
    types.replace(/^\/\*\*[^]*?\*\/\n/, ""),
  ].join("\n");
}

it("the types of the client are those of the document", async () => {
  const now = await generated();
  if (process.env["RELAY_RECORD"] === "write") writeFileSync(file, now);
  expect(readFileSync(file, "utf8")).toBe(now);
});
