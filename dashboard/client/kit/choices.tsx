/** Holds the user's choice of theme, and shows the notice about waiting. */
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { waiting } from "../state/api.ts";
import { useCell } from "../state/cell.ts";
import { Button, notice, useNow } from "./elements.tsx";
import { isPortal } from "../state/page-facts.ts";

const CODES: Readonly<Record<string, string>> = {
  RATE_LIMIT_EXCEEDED: "The limit of requests a minute is reached.",
  BURST_EXCEEDED: "Too many requests in five seconds.",
  PROVIDER_BACKPRESSURE: "The relay, or a receiver, is busy.",
  ABUSE_SUSPEND: "You are suspended for a while: there were far too many requests.",
};

/** Shows a refusal that is being waited out, with the seconds that are left. */
export const WaitNotice = (): VNode | null => {
  const now = useNow();
  const one = useCell(waiting);
  if (one === undefined) return null;
  const seconds = Math.max(1, Math.ceil((one.until - now) / 1_000));
  return (
    <div role="status">
      {notice(
        "warn",
        <p>
          {CODES[one.code] ?? "The relay asks to wait."} <code>{one.code}</code>
        </p>,
        <p aria-hidden>{`It goes on by itself in ${seconds} s.`}</p>,
      )}
    </div>
  );
};

type Theme = "auto" | "light" | "dark";
const NEXT: Readonly<Record<Theme, Theme>> = { auto: "light", light: "dark", dark: "auto" };
const chosen = (): Theme => (document.documentElement.dataset["theme"] as Theme | undefined) ?? "auto";

/** Fires when the colours change, so that charts can be painted again. */
export const repaint = new EventTarget();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => repaint.dispatchEvent(new Event("paint")));

export const ThemeButton = () => {
  const [theme, set] = useState(chosen());
  const turn = (): void => {
    const next = NEXT[theme];
    if (next === "auto") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = next;
    if (!isPortal && next === "auto") localStorage.removeItem("relay.theme");
    else if (!isPortal) localStorage.setItem("relay.theme", next);
    set(next);
    repaint.dispatchEvent(new Event("paint"));
  };
  const sign = (
    <span class="theme-sign" aria-hidden>
      ◐
    </span>
  );
  const text = [<span class="theme-name">{`Theme: ${theme}`}</span>, sign];
  return <Button text={text} class="plain" label={`Theme: ${theme}. Change it`} act={turn} />;
};
