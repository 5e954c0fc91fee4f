// The charts of docs/architecture.md can be drawn, and show the states, reasons and rooms that the code has.
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import type { DeliveryStatus, EndReason } from "../../core/model/delivery.ts";

const root = resolve(import.meta.dirname, "../..");
const page = readFileSync(join(root, "docs/architecture.md"), "utf8");
const charts = [...page.matchAll(/^```mermaid\n([\s\S]*?)^```$/gm)].map(([, text = ""]) => text.trim().split("\n"));

interface Arrow {
  readonly from: string;
  readonly to: string;
  readonly label: string;
}
const arrows = (lines: readonly string[]): readonly Arrow[] =>
  lines.slice(1).map((line) => {
    const [, from = "", to = "", label = ""] = /^ {4}(\[\*\]|\w+) --> (\[\*\]|\w+)(?:: ([^:;#]+))?$/.exec(line) ?? [];
    expect(from, line).not.toBe("");
    return { from, to, label };
  });

const ENDS: Readonly<Record<DeliveryStatus, readonly EndReason[]>> = {
  pending: [],
  delivered: [],
  failed: [
    ...(["exhausted", "endpoint_gone", "receiver_disabled", "receiver_aborted"] as const),
    ...(["subscription_disabled", "record_damaged"] as const),
  ],
  cancelled: ["subscription_deleted", "cancel_requested"],
};

describe("the architecture page", () => {
  it("charts every status of a delivery, and every reason at the arrow into its end", () => {
    expect(charts[0]?.[0]).toBe("stateDiagram-v2");
    const all = arrows(charts[0] ?? []);
    const states = new Set(all.flatMap(({ from, to }) => [from, to]).filter((state) => state !== "[*]"));
    expect([...states].toSorted()).toEqual(Object.keys(ENDS).toSorted());
    for (const [status, reasons] of Object.entries(ENDS)) {
      if (reasons.length === 0) continue;
      expect(all.filter(({ to }) => to === status).map(({ label }) => label)).toEqual(reasons);
    }
    expect(all.filter(({ from }) => from === "cancelled").map(({ to }) => to)).toEqual(["pending", "[*]"]);
  });

  it("charts what a node does with a delivery without a state that nothing leads to, or that leads nowhere", () => {
    expect(charts[1]?.[0]).toBe("stateDiagram-v2");
    const all = arrows(charts[1] ?? []);
    const states = new Set(all.flatMap(({ from, to }) => [from, to]).filter((state) => state !== "[*]"));
    for (const state of states) {
      expect(
        all.some(({ to }) => to === state),
        state,
      ).toBe(true);
      expect(
        all.some(({ from }) => from === state),
        state,
      ).toBe(true);
    }
  });

  it.each(["core", "plugins"])("names every room of %s", (folder) => {
    const rooms = readdirSync(join(root, folder), { withFileTypes: true }).filter((entry) => entry.isDirectory());
    for (const { name } of rooms) expect(page).toContain(`\`${folder}/${name}\``);
  });

  it("lets no arrow between the rooms point at one that the chart does not have in the table", () => {
    const lines = charts[2] ?? [];
    expect(lines[0]).toBe("flowchart LR");
    const rooms = new Set(lines.slice(1).flatMap((line) => line.match(/\w+/g) ?? []));
    for (const room of rooms) expect(page).toMatch(new RegExp(`\`(?:core/)?${room}[\`/]`));
  });
});
