/** Goes anywhere with the keyboard alone: Ctrl-K or Cmd-K, some letters, Enter. */
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { ask, path } from "../state/api.ts";
import { isKeyId, keys, loadKeys, MOST_KEYS, loadStats, nameOf, useKnown } from "../state/api-keys.ts";
import { cell, useCell } from "../state/cell.ts";
import { Dialog } from "../kit/dialog.tsx";
import { problem } from "../kit/elements.tsx";
import { hasAccounts, isPortal, keyViews } from "../state/page-facts.ts";
import { go } from "../state/route.ts";
import type { RelayEvent } from "../shapes.ts";
import { token } from "../state/token.ts";

interface Goal {
  readonly kind: string;
  readonly text: string;
  readonly more?: string;
  readonly parts: readonly string[];
  readonly query?: Readonly<Record<string, string>>;
}

const SHOWN = 30;
/** Letters from which on events are looked for by the beginning of their ids. */
const LETTERS = 4;
const EVENTS = 5;
/** After the last letter: one request for a word, not one for each letter. */
const CALM_MS = 300;
const isMac = /Mac|iP(?:hone|ad)/.test(navigator.platform);

const isOpen = cell(false);

/** Opens it for those who have no keyboard at hand, and shows the others which keys do. */
export const PaletteButton = () => (
  <button type="button" class="plain palette-key" onClick={() => isOpen.set(true)} aria-keyshortcuts="Control+K Meta+K">
    Go to… <kbd>{isMac ? "⌘K" : "Ctrl K"}</kbd>
  </button>
);

export const Palette = ({ keyId }: { readonly keyId: string | undefined }) => {
  const open = useCell(isOpen);
  useEffect(() => {
    const press = (event: KeyboardEvent): void => {
      // A browser that fills in a form presses keys without a name.
      const { key = "" } = event as Partial<KeyboardEvent>;
      if (key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
      event.preventDefault();
      // A dialog that is open is left to the one who fills it in.
      if (document.querySelector("dialog[open]") === null) isOpen.set(true);
    };
    addEventListener("keydown", press);
    return () => {
      removeEventListener("keydown", press);
      isOpen.set(false);
    };
  }, []);
  return open ? <Chooser keyId={keyId} close={() => isOpen.set(false)} /> : null;
};

function pages(keyId: string | undefined): readonly Goal[] {
  const page = (text: string, ...parts: readonly string[]): Goal => ({ kind: "Page", text, parts });
  const { keys: owned } = token.now ?? {};
  return [
    ...(keyId === undefined ? [] : keyViews.map(([name, text]) => ({ ...page(text, "k", keyId, name), more: keyId }))),
    ...(isPortal ? [] : [page("API keys", "keys"), page("Account", "account")]),
    ...(owned === "*" ? [page("Relay", "relay"), ...(hasAccounts ? [page("Users", "users")] : [])] : []),
  ];
}

/** Every word must be there, in any order. */
const matches = ({ kind, text, more = "" }: Goal, words: readonly string[]): boolean => {
  const all = `${kind} ${text} ${more}`.toLowerCase();
  return words.every((word) => all.includes(word));
};

/** Finds events by the beginning of their ids. What an earlier text found stays until the next answer. */
function useEvents(keyId: string | undefined, typed: string, failed: (error: unknown) => void): readonly RelayEvent[] {
  const [found, setFound] = useState<readonly RelayEvent[]>([]);
  useEffect(() => {
    if (keyId === undefined || typed.length < LETTERS || !/^[A-Za-z0-9][A-Za-z0-9_:-]*$/.test(typed)) return undefined;
    const abort = new AbortController();
    const route = path("/api-keys/{}/events", [keyId], { id: typed, limit: String(EVENTS) });
    const timer = setTimeout(() => {
      ask<readonly RelayEvent[]>("GET", route, { signal: abort.signal }).then(
        ({ data }) => setFound(data),
        (error: unknown) => abort.signal.aborted || failed(error),
      );
    }, CALM_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [typed, keyId]);
  // As far as they fit: nothing moves under Enter.
  return found.filter(({ id }) => typed.length >= LETTERS && id.startsWith(typed));
}

/** Returns what a text leads to, and why something could not be read. */
function useGoals(keyId: string | undefined, typed: string) {
  const [failure, setFailure] = useState<unknown>(undefined);
  const owned = useCell(keys) ?? [];
  const subscriptions = useKnown(keyId);
  const found = useEvents(keyId, typed, setFailure);
  useEffect(() => {
    if (!isPortal) loadKeys().catch(setFailure);
    if (keyId !== undefined) loadStats(keyId, "24h").catch(setFailure);
  }, []);
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  const key = (text: string): Goal => ({ kind: "API key", text, parts: ["k", text, "overview"] });
  const inKey = (...parts: readonly string[]): readonly string[] => ["k", keyId ?? "", ...parts];
  const known: readonly Goal[] = [
    ...pages(keyId),
    ...[...subscriptions.values()].map((one) => {
      return { kind: "Subscription", text: nameOf(one), more: one.id, parts: inKey("subscriptions", one.id) };
    }),
    ...(isPortal ? [] : owned).map(key),
  ];
  const goals = known.filter((one) => matches(one, words)).slice(0, SHOWN);
  goals.push(...found.map(({ id, type }) => ({ kind: "Event", text: id, more: type, parts: inKey("events", id) })));
  if (keyId !== undefined && typed.length >= LETTERS)
    goals.push({ kind: "Events", text: `Ids that begin with ${typed}`, parts: inKey("events"), query: { id: typed } });
  if (token.now?.keys === "*" && isKeyId(typed) && !owned.includes(typed))
    goals.push({ ...key(typed), ...(owned.length < MOST_KEYS && { more: "not in use yet" }) });
  return { goals, failure };
}

const Chooser = ({ keyId, close }: { readonly keyId: string | undefined; readonly close: () => void }) => {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const { goals, failure } = useGoals(keyId, text.trim());
  const input = useRef<HTMLInputElement>(null);
  const chosen = useRef<HTMLLIElement>(null);
  const id = useId();
  const here = Math.min(at, goals.length - 1);
  useEffect(() => input.current?.focus(), []);
  useEffect(() => chosen.current?.scrollIntoView({ block: "nearest" }), [here]);

  function take(goal: Goal | undefined): void {
    if (goal === undefined) return;
    close();
    go(goal.parts, goal.query);
  }
  function press(event: KeyboardEvent): void {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step !== undefined) setAt((here + step + goals.length) % Math.max(1, goals.length));
    else if (event.key === "Enter" && !event.isComposing) take(goals[here]);
    else return;
    event.preventDefault();
  }
  return (
    <Dialog title="Go to" close={close}>
      <div class="palette">
        <input
          ref={input}
          value={text}
          role="combobox"
          aria-label="Page, subscription, API key or event id"
          aria-expanded={goals.length > 0}
          aria-controls={id}
          aria-autocomplete="list"
          aria-activedescendant={here < 0 ? undefined : `${id}-${here}`}
          placeholder="Page, subscription, API key or event id"
          autoComplete="off"
          autoCapitalize="none"
          spellcheck={false}
          onInput={(event: Event) => {
            setText((event.currentTarget as HTMLInputElement).value);
            setAt(0);
          }}
          onKeyDown={press}
        />
        <ul id={id} role="listbox" aria-label="Where to go">
          {goals.map((goal, i) => (
            <li
              key={`${goal.kind} ${goal.text} ${goal.parts.join("/")}`}
              id={`${id}-${i}`}
              ref={i === here ? chosen : undefined}
              role="option"
              aria-selected={i === here}
              onClick={() => take(goal)}
            >
              <span>{goal.text}</span>
              <small>{goal.more === undefined ? goal.kind : `${goal.kind} · ${goal.more}`}</small>
            </li>
          ))}
        </ul>
        <p class="quiet" role="status">
          {goals.length === 0 ? "Nothing here has these words." : ""}
        </p>
        {problem(failure)}
      </div>
    </Dialog>
  );
};
