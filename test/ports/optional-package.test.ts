// Packages such as the client of a broker: installed only where a config needs them.
import { describe, expect, it } from "vitest";
import type { StartError } from "../../core/model/errors.ts";
import { loadPackages, packageProblems } from "../../core/ports/optional-package.ts";

const ABSENT = "no-such-client";

describe("a plug-in whose package is not installed", () => {
  it("is a problem of the config that says which command installs it", () => {
    const problems = packageProblems("fromNowhere", [ABSENT, "and-another"]);
    const message = `fromNowhere() needs a package: npm install ${ABSENT} and-another`;
    expect(problems).toEqual([{ path: "", message }]);
    expect(packageProblems("fromPostgres", ["pg"])).toEqual([]);
    // Of packages that only `import` finds, too.
    expect(packageProblems("fromNowhere", ["p-retry"])).toEqual([]);
    expect(packageProblems("fromNowhere", ["pg", ABSENT])).toHaveLength(1);
  });

  it("does not start, with 78 and the same command", async () => {
    const loading = loadPackages("fromNowhere", [ABSENT], () => import(ABSENT));
    await expect(loading).rejects.toThrow(`fromNowhere() needs a package: npm install ${ABSENT}`);
    await expect(loading).rejects.toMatchObject({ exitCode: 78 } satisfies Partial<StartError>);
  });

  it("is asked for by a command in its own words", async () => {
    await expect(loadPackages("relay mcp", [ABSENT], () => import(ABSENT))).rejects.toThrow(
      `relay mcp needs a package: npm install ${ABSENT}`,
    );
  });

  it("is told from one that fails while it is loaded", async () => {
    const broken = (): Promise<never> => Promise.reject(new Error("broken"));
    await expect(loadPackages("fromNowhere", [ABSENT], broken)).rejects.toThrow("broken");
  });
});
