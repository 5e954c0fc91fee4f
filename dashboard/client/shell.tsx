/** Frames every view: navigation, the current key, and the sign that says whether it is live. */
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect } from "preact/hooks";
import { useCell } from "./state/cell.ts";
import { ThemeButton, WaitNotice } from "./kit/choices.tsx";
import { Form } from "./kit/dialog.tsx";
import { Field, Select, useForm } from "./kit/fields.tsx";
import { isKeyId, keys, loadKeys } from "./state/api-keys.ts";
import { follow, liveState } from "./state/live.ts";
import { Palette, PaletteButton } from "./views/palette.tsx";
import { brandLink, Button, Submit, toast } from "./kit/elements.tsx";
import { go, to, type PagePlace } from "./state/route.ts";
import { docs, hasAccounts, isPortal, keyViews } from "./state/page-facts.ts";
import { logOut } from "./state/session.ts";
import { token } from "./state/token.ts";

interface ShellProps {
  readonly keyId: string | undefined;
  readonly here: PagePlace;
  readonly children: ComponentChildren;
}

/** When a view that has used up its requests is followed, ms: by then the short window of the limits has passed. */
const LATE_MS = 15_000;
/** When a key is followed again whose stream was refused, ms. */
const AGAIN_MS = 60_000;

export const Shell = ({ keyId, here, children }: ShellProps) => {
  const now = useCell(token);
  const inKey = here.parts[0] === "k";
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
  return (
    <div class="shell">
      <a class="skip" href="#main" onClick={skip}>
        Skip to the content
      </a>
      <header class="top">
        {brandLink()}
        {!isPortal && <KeySwitch keyId={keyId} />}
        <Views keyId={keyId} here={here} />
        <div class="tools">
          {now?.access === "read" && <span class="quiet">You may only look</span>}
          {(inKey || isPortal) && <Live />}
          <PaletteButton />
          <ThemeButton />
          <Button text={isPortal ? "Leave" : "Log out"} class="plain" act={() => void logOut()} />
        </div>
      </header>
      <main id="main" tabIndex={-1}>
        <WaitNotice />
        {children}
      </main>
      <Palette keyId={keyId} />
      <Toast />
    </div>
  );
};

/** Those of the whole relay stand apart from those of the key. */
const Views = ({ keyId, here }: Omit<ShellProps, "children">) => {
  const { keys: owned = [] } = useCell(token) ?? {};
  const several = !isPortal && (owned === "*" || owned.length > 1);
  const [area, , name] = here.parts;
  const view = here.parts.join("/");
  useEffect(() => {
    // On a phone the links are one line that scrolls: the current one is brought into sight.
    const current = document.querySelector<HTMLElement>(".top nav [aria-current]");
    const line = current?.closest("ul");
    if (line && current)
      line.scrollLeft = current.offsetLeft - line.offsetLeft - line.clientWidth / 2 + current.offsetWidth / 2;
  }, [view]);
  const link = (parts: readonly string[], text: string, on: boolean, apart = false) => (
    <li key={text} class={apart ? "apart" : undefined}>
      <a href={to(parts)} aria-current={on ? "page" : undefined}>
        {text}
      </a>
    </li>
  );
  return (
    <nav aria-label="Views">
      <ul>
        {keyId !== undefined &&
          keyViews.map(([one, text]) => link(["k", keyId, one], text, area === "k" && name === one))}
        {several && link(["keys"], "API keys", area === "keys" || area === undefined, true)}
        {owned === "*" && link(["relay"], "Relay", area === "relay")}
        {owned === "*" && hasAccounts && link(["users"], "Users", area === "users")}
        {docs !== undefined && (
          <li key="docs" class={isPortal ? "apart" : undefined}>
            <a href={docs} target={isPortal ? "_blank" : undefined} rel="noreferrer">
              {isPortal ? "Documentation" : "Reference"}
            </a>
          </li>
        )}
        {!isPortal && link(["account"], "Account", area === "account", !several)}
      </ul>
    </nav>
  );
};

/** The page uses the address after `#` itself, so a jump within the page is made by hand. */
function skip(event: Event): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

const Toast = () => {
  const text = useCell(toast);
  return (
    <div class="toast" role="status">
      {text !== undefined && <span>{text}</span>}
    </div>
  );
};

const BY_THEMSELVES = "New events and attempts appear by themselves while this is live.";
const OLD = "What is shown may be out of date. It is read again as soon as the relay can be reached.";
const STATES = {
  off: ["not live", BY_THEMSELVES],
  connecting: ["connecting…", BY_THEMSELVES],
  on: ["live", BY_THEMSELVES],
  lost: ["reconnecting…", OLD],
  offline: ["offline", OLD],
} as const;

const Live = () => {
  const state = useCell(liveState);
  const [text, title] = STATES[state];
  return (
    <span class={`live is-${state}`} title={title} role="status">
      {text}
    </span>
  );
};

const KeySwitch = ({ keyId }: { readonly keyId: string | undefined }) => {
  const all = useCell(keys);
  if (keyId === undefined) return null;
  const ids = [...new Set([keyId, ...(all ?? [])])].toSorted();
  const load = async (): Promise<void> => {
    if (keys.now === undefined) await loadKeys();
  };
  return (
    <div class="key">
      <Select
        label="API key"
        bare
        value={keyId}
        options={[...ids.map((id) => [id, id] as const), ["", "Another key…"]]}
        change={(next) => (next === "" ? go(["keys"]) : go(["k", next, "overview"]))}
        load={load}
      />
    </div>
  );
};

export const KeyForm = () => {
  const form = useForm({ id: "" }, async ({ id }) => {
    if (!isKeyId(id)) throw new Error("1 to 64 letters, digits, _ : and -, the first a letter or digit");
    go(["k", id, "subscriptions"]);
  });
  return (
    <Form submit={form.run}>
      <Field {...form.of("id", "Key id")} placeholder="key_1" error={(form.error as Error | undefined)?.message} />
      <Submit text="Open" class="" busy={form.busy} />
    </Form>
  );
};
