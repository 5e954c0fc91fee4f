// Three seconds of torture for each storage: real processes, real TLS, and everything that may befall them here. More of it:
// `npm run torture -- --storage all --seconds 60`.
import { describe, it } from "vitest";
import { ordeal, STORAGES } from "../../tools/torture/ordeal.ts";
import { ENTRY } from "../support/command.ts";
import { needs } from "../support/needs.ts";

const command = [process.execPath, ENTRY];
const seed = Number(process.env["SEED"] ?? Math.floor(Math.random() * 1e9));

describe("under torture", () => {
  it.concurrent.for(STORAGES)(
    "a relay on %s keeps its word",
    { timeout: 600_000 },
    async (storage, { skip, expect }) => {
      const missing = needs(storage === "redis" || storage === "postgres" ? storage : "strace", "faketime");
      skip(missing !== undefined, missing);
      const end = await ordeal({ storage, seed, seconds: 3, wide: 20, hostile: false, command, say: () => undefined });
      const { lost, overdue, violations } = end;
      expect({ seed, lost, overdue, violations }).toEqual({ seed, lost: 0, overdue: 0, violations: [] });
      // How many there are is up to the machine.
      expect(end.accepted).toBeGreaterThan(20);
      expect(end.survey.deliveries.delivered).toBeGreaterThan(20);
    },
  );
});
