/** `relay check`: reads the config and says everything that is wrong with it. */
import type { Command } from "./command.ts";
import { CONFIG_OPTIONS, JSON_OPTION } from "./command.ts";
import { EX_CONFIG, EX_OK } from "./exit.ts";
import { fields, json } from "./output.ts";
import { loadFor } from "./settings.ts";

const check: Command = {
  usage: "check",
  about: "check the config: every problem at once",
  options: [...CONFIG_OPTIONS, JSON_OPTION],
  async run(given, around) {
    const { ConfigError } = await import("../../config/problems.ts");
    try {
      const { plan, file } = await loadFor(given, around);
      if (given.flag("json")) around.print(json({ ok: true, file, problems: [] }));
      else around.print(summary(plan, file));
      return EX_OK;
    } catch (error) {
      if (!(error instanceof ConfigError) || !given.flag("json")) throw error;
      around.print(json({ ok: false, file: error.file, problems: error.problems }));
      return EX_CONFIG;
    }
  },
};

function summary(plan: Awaited<ReturnType<typeof loadFor>>["plan"], file: string | undefined): string {
  const names = (plugins: readonly { readonly name: string }[]): string => plugins.map(({ name }) => name).join(", ");
  return fields([
    ["config", `${file ?? "built in"}: in order`],
    ["data", plan.dataDir],
    ["server", `${plan.server.tls ? "https" : "http"}://${plan.server.host}:${plan.server.port}`],
    ["storage", plan.storage.name],
    ["sources", names(plan.sources) || "none"],
    ["transports", names(plan.transports)],
    ["auth", plan.auth.name],
    ["jobs", plan.jobs.map(({ name, schedule }) => `${name} (${schedule})`).join(", ") || "none"],
  ]);
}

export const commands: readonly Command[] = [check];
