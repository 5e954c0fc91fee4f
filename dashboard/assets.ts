/** Loads the assets of the page: those that a build has made. A checkout builds them at the first request, where they have changed. */
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";

export interface Asset {
  /** `main.3f2a….js`: the name changes with the content. */
  readonly name: string;
  readonly type: string;
  readonly body: Uint8Array;
  readonly gzip: Uint8Array;
}

export interface Assets {
  /** The script that stands in the document itself. */
  readonly start: string;
  /** The name of the page's module. */
  readonly main: string;
  readonly byName: ReadonlyMap<string, Asset>;
  /** Those of `/docs` alone: its script first, the guides last. */
  readonly docs: ReadonlyMap<string, Asset>;
  /** Changes when anything changes. */
  readonly version: string;
}

type Texts = readonly { readonly name: string; readonly type: string; readonly text: string }[];
export interface Packed extends Omit<Assets, "byName" | "docs"> {
  readonly assets: Texts;
  readonly docs: Texts;
}

/** The name under which a package and a single executable contain them. */
export const EMBEDDED = "dashboard.json";
const isCheckout = import.meta.url.endsWith(".ts");
export const BUILT = join(import.meta.dirname, isCheckout ? "../dist" : "", EMBEDDED);

export async function loadAssets(): Promise<Assets> {
  const { assets, docs, ...packed } = JSON.parse(await packAssets()) as Packed;
  return { ...packed, byName: byName(assets), docs: byName(docs) };
}

const byName = (texts: Texts): ReadonlyMap<string, Asset> =>
  new Map(
    texts.map(({ name, type, text }) => {
      const body = Buffer.from(text);
      return [name, { name, type, body, gzip: gzipSync(body, { level: 9 }) }];
    }),
  );

/** Loads them at the first call, once. A failure is tried again. */
export function assetsOnce(): () => Promise<Assets> {
  let loading: Promise<Assets> | undefined;
  return () =>
    (loading ??= loadAssets().catch((error: unknown) => {
      loading = undefined;
      throw error;
    }));
}

/** Returns all assets as one text, as an executable contains them. @throws Error when a checkout cannot build them */
export async function packAssets(): Promise<string> {
  const sea = process.getBuiltinModule("node:sea");
  if (sea.isSea()) return sea.getAsset(EMBEDDED, "utf8");
  // The bundler takes 200 MB, which a relay would keep.
  if (isCheckout) await promisify(execFile)(process.execPath, [join(import.meta.dirname, "build.ts")]);
  return await readFile(BUILT, "utf8");
}
