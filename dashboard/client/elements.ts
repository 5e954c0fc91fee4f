/** Small elements that every view uses. */
import type { ComponentChildren, VNode } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { ApiRefusal } from "./api.ts";
import { cell, useCell } from "./cell.ts";
import { el, part } from "./dom.ts";
import { ago, clockTime, moment } from "./format.ts";
import { arrived } from "./route.ts";
import { isPortal, product } from "./page-facts.ts";
import { relayNow } from "./relay-time.ts";

/** Shows a status as a word. Its colour says no more than the word does. */
export const badge = (status: string, more?: string): VNode =>
  el.span({ class: `badge is-${status}` }, more === undefined ? status : `${status} · ${more}`);

const clock = cell(relayNow());
setInterval(() => {
  if (!document.hidden) clock.set(relayNow());
}, 1_000);
/** Returns epoch ms of the relay, updated each second. */
export const useNow = (): number => useCell(clock);

const CLOCK = "relay.times";
/** Whether lists show the clock instead of how long ago it was. Kept in the browser, which may refuse that in a frame. */
const clockTimes = cell(!isPortal && localStorage.getItem(CLOCK) === "clock");

/** Shows how long ago a time is, or the time itself; the other one on hover. */
export const When = part(({ at }: { readonly at: string }) => {
  const now = useNow();
  const clock = useCell(clockTimes);
  const name = ({ currentTarget }: { readonly currentTarget: HTMLElement }): void => {
    currentTarget.title = clock ? ago(at, relayNow()) : moment(at);
  };
  return el.time({ dateTime: at, onMouseEnter: name }, clock ? clockTime(at, now) : ago(at, now));
});

/** Switches all lists between the two. */
export const TimeSwitch = part(() => {
  const on = useCell(clockTimes);
  const turn = (): void => {
    clockTimes.set(!on);
    if (!isPortal) localStorage.setItem(CLOCK, on ? "ago" : "clock");
  };
  return el.button({ type: "button", "aria-pressed": on, onClick: turn }, "Clock times");
});

type Tone = "info" | "good" | "warn" | "bad";

export const notice = (tone: Tone, ...children: ComponentChildren[]): VNode =>
  el.div({ class: `notice is-${tone}`, role: tone === "bad" ? "alert" : undefined }, ...children);

/**
 * Shows what went wrong, in the relay's own words, field by field.
 * @param again reads what could not be read: offered where that may help
 */
export function problem(error: unknown, again?: () => void): VNode | null {
  if (error === undefined) return null;
  const { errors = [], requestId, status = 500 } = error instanceof ApiRefusal ? error : {};
  return notice(
    "bad",
    el.p(null, (error as Error).message),
    errors.length > 0 &&
      el.ul(null, ...errors.map(({ path, message }) => el.li(null, path && el.code(null, path), path && " ", message))),
    requestId !== undefined && el.p({ class: "quiet" }, "Request ", el.code(null, requestId)),
    // 0: there was no answer at all.
    again !== undefined &&
      (status === 0 || status >= 500) &&
      el.button({ type: "button", onClick: again }, "Try again"),
  );
}

export const empty = (title: string, text: ComponentChildren, ...actions: ComponentChildren[]): VNode =>
  el.div(
    { class: "empty" },
    el.h2(null, title),
    el.p(null, text),
    actions.length > 0 && el.div({ class: "row" }, ...actions),
  );

export const skeleton = (): VNode =>
  el.div(
    { class: "skeleton", role: "status" },
    el.span({ class: "hidden" }, "Loading…"),
    el.i(null),
    el.i(null),
    el.i(null),
  );

interface PageProps {
  readonly title: string;
  readonly kicker?: ComponentChildren;
  readonly actions?: ComponentChildren;
  readonly children: ComponentChildren;
}

/**
 * A view. Its heading takes the focus when the view opens, so that it is read out and the keyboard continues from
 * there.
 */
export const PageFrame = part(({ title, kicker, actions, children }: PageProps) => {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${title} · ${product}`;
    if (arrived.focus) heading.current?.focus({ preventScroll: true });
    if (arrived.focus) scrollTo(0, 0);
    arrived.focus = false;
  }, [title]);
  // The view of what is on its way goes for that of what has come: the focus goes with it.
  useLayoutEffect(
    () => () => {
      arrived.focus ||= document.activeElement === heading.current;
    },
    [],
  );
  return el.section(
    { class: "page" },
    el.header(
      { class: "page-head" },
      el.div(
        null,
        kicker !== undefined && el.div({ class: "kicker" }, kicker),
        el.h1({ ref: heading, tabIndex: -1 }, title),
      ),
      actions !== undefined && el.div({ class: "row" }, actions),
    ),
    children,
  );
});

/** A short message at the edge, which is read out: something was done. */
export const toast = cell<string | undefined>(undefined);
let telling: ReturnType<typeof setTimeout> | undefined;
export function showToast(text: string): void {
  clearTimeout(telling);
  toast.set(text);
  telling = setTimeout(() => toast.set(undefined), 5_000);
}

interface CopyProps {
  readonly text: string;
  readonly what: string;
  /** Whether to name what it copies, where there are several. */
  readonly named?: boolean;
}

export const Copy = part(({ text, what, named }: CopyProps) => {
  const [done, setDone] = useState(false);
  const copy = async (): Promise<void> => {
    await navigator.clipboard.writeText(text);
    setDone(true);
    showToast(`Copied ${what}`);
    setTimeout(() => setDone(false), 2_000);
  };
  const refused = (): void => showToast("The browser does not allow copying here: select it and copy it by hand.");
  return el.button(
    {
      type: "button",
      class: "small",
      "aria-label": `${done ? "Copied" : "Copy"} ${what}`,
      onClick: () => void copy().catch(refused),
    },
    done ? "Copied" : named ? `Copy ${what}` : "Copy",
  );
});

/** Whether it belongs to a double click, which means one click. */
export const isSecondClick = (event: Event | undefined): boolean => event instanceof MouseEvent && event.detail > 1;

export interface Action<T extends readonly unknown[]> {
  /** As a listener it leaves the second click of a double click alone: the first may have been answered by then. */
  readonly run: (event?: Event, ...what: T) => void;
  readonly busy: boolean;
  readonly error: unknown;
}

/**
 * Runs an action with its state: one at a time; its error stays until the next.
 * @param act its signal aborts when what offers it is closed; `what` says which it is, where several share the state
 */
export function useAction<T extends readonly unknown[] = []>(
  act: (wanted: AbortSignal, ...what: T) => Promise<void>,
): Action<T> {
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(undefined);
  const [closing] = useState(() => new AbortController());
  const from = useRef<Element | null>(null);
  useEffect(() => () => closing.abort(), []);
  useEffect(() => {
    if (busy) return;
    // Its button has lost the focus while it was disabled.
    if (from.current instanceof HTMLElement && document.activeElement === document.body)
      from.current.focus({ preventScroll: true });
    from.current = null;
  }, [busy]);
  const run = (event?: Event, ...what: T): void => {
    if (busy || isSecondClick(event)) return;
    from.current = document.activeElement;
    setBusy(true);
    setError(undefined);
    act(closing.signal, ...what)
      .catch(setError)
      .finally(() => setBusy(false));
  };
  return { run, busy, error };
}
