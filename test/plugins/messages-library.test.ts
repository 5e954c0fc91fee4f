// The clients of upstream systems: installed only where a config needs them.
import { describe, expect, it } from "vitest";
import type { StartError } from "../../core/model/errors.ts";
import { library, libraryProblems } from "../../plugins/source/messages/library.ts";

const ABSENT = "no-such-client";

describe("a source whose client is not installed", () => {
  it("is a problem of the config that says which command installs it", () => {
    const problems = libraryProblems("fromNowhere()", import.meta.url, ABSENT, `${ABSENT} and-another`);
    const message = `fromNowhere() needs a package: npm install ${ABSENT} and-another`;
    expect(problems).toEqual([{ path: "", message }]);
    expect(libraryProblems("fromPostgres()", import.meta.url, "pg")).toEqual([]);
    // Of packages that only `import` finds, too.
    expect(libraryProblems("fromNowhere()", import.meta.url, "p-retry")).toEqual([]);
  });

  it("does not start, with 78 and the same command", async () => {
    const loading = library("fromNowhere()", ABSENT, () => import(ABSENT));
    await expect(loading).rejects.toThrow(`fromNowhere() needs a package: npm install ${ABSENT}`);
    await expect(loading).rejects.toMatchObject({ exitCode: 78 } satisfies Partial<StartError>);
  });

  it("is told from one that fails while it is loaded", async () => {
    const broken = (): Promise<never> => Promise.reject(new Error("broken"));
    await expect(library("fromNowhere()", ABSENT, broken)).rejects.toThrow("broken");
  });
});
