/**
 * Makes a module of the receivers in `docs/verify.md`, so that the page shows the code that the guide's tests run, and no
 * second version of it.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";

interface Receiver {
  readonly language: string;
  readonly code: string;
}

/** Returns the guide's receivers in its order: each is a heading with a block of code that is marked `verify`. */
export function receiversOf(guide: string): readonly Receiver[] {
  return guide.split(/^### /m).flatMap((section) => {
    const [, code] = /^```[a-z]+ verify\n([^]*?)^```$/m.exec(section) ?? [];
    return code === undefined ? [] : [{ language: section.slice(0, section.indexOf("\n")), code }];
  });
}

export const GUIDE = join(import.meta.dirname, "../docs/verify.md");

/** Returns the text of the module `relay:receivers`, which the page imports when somebody asks for the code. */
export async function receiversModule(): Promise<string> {
  const guide = await readFile(GUIDE, "utf8");
  return `export const receivers = ${JSON.stringify(receiversOf(guide))};\n`;
}
