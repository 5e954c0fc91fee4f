/** The frame around every view: navigation, the current key, and whether the view is live. */
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { useCell } from "./cell.ts";
import { brandLink } from "./brand.ts";
import { ThemeButton, waitNotice } from "./choices.ts";
import { form } from "./dialog.ts";
import { el, part } from "./dom.ts";
import { Field, Select } from "./fields.ts";
import { isKeyId, keys, loadKeys } from "./api-keys.ts";
import { follow, liveState } from "./live.ts";
import { Palette, PaletteButton } from "./palette.ts";
import { toast } from "./elements.ts";
import { go, to, type PagePlace } from "./route.ts";
import { hasAccounts, isPortal, keyViews } from "./page-facts.ts";
import { logOut } from "./session.ts";
import { token } from "./token.ts";

interface ShellProps {
  readonly keyId: string | undefined;
  readonly here: PagePlace;
  readonly children: ComponentChildren;
}

/** When a view that has used up its requests is followed, ms: by then the short window of the limits has passed. */
const LATE_MS = 15_000;
/** When a key is followed again whose stream was refused, ms. */
const AGAIN_MS = 60_000;

export const Shell = part(({ keyId, here, children }: ShellProps) => {
  const now = useCell(token);
  const [area] = here.parts;
  const inKey = area === "k";
  const several = !isPortal && (now?.keys === "*" || (now?.keys.length ?? 0) > 1);
  const followed = inKey ? keyId : undefined;
  const view = here.parts.join("/");
  useLayoutEffect(() => {
    follow(followed);
    const late = (): void => follow(followed, true);
    const [once, timer] = [setTimeout(late, LATE_MS), setInterval(late, AGAIN_MS)];
    return () => {
      clearTimeout(once);
      clearInterval(timer);
    };
  }, [followed, view, now === undefined]);
  useEffect(() => {
    // On a phone the links are one line that scrolls: the current one is brought into sight.
    const current = document.querySelector<HTMLElement>(".top nav [aria-current]");
    const line = current?.closest("ul");
    if (line && current)
      line.scrollLeft = current.offsetLeft - line.offsetLeft - line.clientWidth / 2 + current.offsetWidth / 2;
  }, [view]);
  // Those of the whole relay stand apart from those of the key.
  const link = (parts: readonly string[], text: string, on: boolean, apart = false) =>
    el.li(
      { key: text, class: apart ? "apart" : undefined },
      el.a({ href: to(parts), "aria-current": on ? "page" : undefined }, text),
    );
  return el.div(
    { class: "shell" },
    el.a({ class: "skip", href: "#main", onClick: skip }, "Skip to the content"),
    el.header(
      { class: "top" },
      brandLink(),
      !isPortal && KeySwitch({ keyId }),
      el.nav(
        { "aria-label": "Views" },
        el.ul(
          null,
          ...(keyId === undefined
            ? []
            : keyViews.map(([name, text]) => link(["k", keyId, name], text, inKey && here.parts[2] === name))),
          several && link(["keys"], "API keys", area === "keys" || (area === undefined && !isPortal), true),
          now?.keys === "*" && link(["relay"], "Relay", area === "relay"),
          now?.keys === "*" && hasAccounts && link(["users"], "Users", area === "users"),
          !isPortal && link(["account"], "Account", area === "account", !several),
        ),
      ),
      el.div(
        { class: "tools" },
        now?.access === "read" && el.span({ class: "quiet" }, "You may only look"),
        (inKey || isPortal) && Live({}),
        PaletteButton({}),
        ThemeButton({}),
        el.button({ type: "button", class: "plain", onClick: () => void logOut() }, isPortal ? "Leave" : "Log out"),
      ),
    ),
    el.main({ id: "main", tabIndex: -1 }, waitNotice({}), children),
    Palette({ keyId }),
    Toast({}),
  );
});

/** The page uses the address after `#` itself, so a jump within the page is made by hand. */
function skip(event: Event): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

const Toast = part(() => {
  const text = useCell(toast);
  return el.div({ class: "told", role: "status" }, text !== undefined && el.span(null, text));
});

const BY_THEMSELVES = "New events and attempts appear by themselves while this is live.";
const OLD = "What is shown may be out of date. It is read again as soon as the relay can be reached.";
const STATES = {
  off: ["not live", BY_THEMSELVES],
  connecting: ["connecting…", BY_THEMSELVES],
  on: ["live", BY_THEMSELVES],
  lost: ["reconnecting…", OLD],
  offline: ["offline", OLD],
} as const;

const Live = part(() => {
  const state = useCell(liveState);
  const [text, title] = STATES[state];
  return el.span({ class: `live is-${state}`, title, role: "status" }, text);
});

const KeySwitch = part(({ keyId }: { readonly keyId: string | undefined }) => {
  const all = useCell(keys);
  if (keyId === undefined) return null;
  const ids = [...new Set([keyId, ...(all ?? [])])].toSorted();
  const load = async (): Promise<void> => {
    if (keys.now === undefined) await loadKeys();
  };
  return el.div(
    { class: "key" },
    Select({
      label: "API key",
      bare: true,
      value: keyId,
      options: [...ids.map((id) => [id, id] as const), ["", "Another key…"]],
      change: (next) => (next === "" ? go(["keys"]) : go(["k", next, "overview"])),
      load,
    }),
  );
});

export const KeyForm = part(() => {
  const [id, setId] = useState("");
  const [wrong, setWrong] = useState<string | undefined>(undefined);
  const submit = (): void => {
    if (isKeyId(id)) go(["k", id, "subscriptions"]);
    else setWrong("1 to 64 letters, digits, _ : and -, the first a letter or digit");
  };
  return form({
    submit,
    children: [
      Field({ label: "Key id", value: id, change: setId, placeholder: "key_1", error: wrong }),
      el.button({ type: "submit" }, "Open"),
    ],
  });
});
