/** Small elements that every view uses: words, times, buttons, notices, the frame of a view. */
import type { ComponentChildren, VNode } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { ApiRefusal, relayNow } from "../state/api.ts";
import { cell, useCell } from "../state/cell.ts";
import { ago, clockTime, moment } from "../state/format.ts";
import { arrived } from "../state/route.ts";
import { isPortal, logo, product } from "../state/page-facts.ts";

/** Shows a status as a word. Its colour says no more than the word does. */
export const badge = (status: string, word = status, more?: string): VNode => (
  <span class={`badge is-${status}`}>{more === undefined ? word : `${word} · ${more}`}</span>
);

const brandLook = logo === undefined ? "brand" : "brand own";
const brandParts = () => [logo !== undefined && <img src={logo} alt={""} height={24} />, product];
/** Shows whose page this is: a name, and a picture where there is one. */
export const brand = () => <p class={brandLook}>{brandParts()}</p>;
export const brandLink = () => link("#/", brandParts(), brandLook);

interface ButtonProps {
  readonly text: ComponentChildren;
  readonly act: (event: Event) => void;
  readonly class?: string | undefined;
  /** Its words for people who do not see where it stands. */
  readonly label?: string;
  readonly off?: boolean;
  readonly pressed?: boolean;
  readonly title?: string | undefined;
  /** Takes the focus when its dialog opens. */
  readonly focus?: boolean;
}

/** A button that sends no form. */
export const Button = ({ text, act, label, off, pressed, focus, ...look }: ButtonProps) => (
  <button
    type="button"
    aria-label={label}
    aria-pressed={pressed}
    disabled={off}
    autoFocus={focus}
    onClick={act}
    {...look}
  >
    {text}
  </button>
);

interface SubmitProps {
  readonly text: ComponentChildren;
  readonly busy: boolean;
  /** Said while it is being sent. */
  readonly doing?: ComponentChildren;
  readonly class?: string;
  readonly off?: boolean;
}

/** The button that sends a form, once at a time. */
export const Submit = ({ text, busy, doing = text, off = false, class: look = "main" }: SubmitProps) => (
  <button type="submit" class={look} disabled={busy || off}>
    {busy ? doing : text}
  </button>
);

export const link = (address: string, text: ComponentChildren, look?: string, title?: string): VNode => (
  <a href={address} class={look} title={title}>
    {text}
  </a>
);

const clock = cell(relayNow());
setInterval(() => {
  if (!document.hidden) clock.set(relayNow());
}, 1_000);
/** Returns epoch ms of the relay, updated each second. */
export const useNow = (): number => useCell(clock);

const CLOCK = "relay.times";
/** True while lists show the clock instead of how long ago it was. Kept in the browser, which may refuse that in a frame. */
const clockTimes = cell(!isPortal && localStorage.getItem(CLOCK) === "clock");

/** Shows how long ago a time is, or the time itself; the other one on hover. */
export const When = ({ at }: { readonly at: string }) => {
  const now = useNow();
  const clock = useCell(clockTimes);
  return (
    <time dateTime={at} title={clock ? ago(at, now) : moment(at)}>
      {clock ? clockTime(at, now) : ago(at, now)}
    </time>
  );
};

/** Switches all lists between the two. */
export const TimeSwitch = () => {
  const on = useCell(clockTimes);
  const turn = (): void => {
    clockTimes.set(!on);
    if (!isPortal) localStorage.setItem(CLOCK, on ? "ago" : "clock");
  };
  return <Button text="Clock times" pressed={on} act={turn} />;
};

/** A name and its value, in a list of them. */
export const line = (name: string, ...value: ComponentChildren[]): VNode => (
  <div key={name}>
    <dt>{name}</dt>
    <dd>{value}</dd>
  </div>
);

/** Shows names side by side, each of them cut where there is no room. */
export const codes = (names: readonly string[], more?: ComponentChildren): VNode => (
  <span class="names">
    {names.map((name) => (
      <code key={name}>{name}</code>
    ))}
    {more}
  </span>
);

interface CardProps {
  readonly id: string;
  readonly title: ComponentChildren;
  readonly children: ComponentChildren;
}

/** A part of a view, under its heading. */
export const Card = ({ id, title, children }: CardProps) => (
  <section class="card" aria-labelledby={id}>
    <h2 id={id}>{title}</h2>
    {children}
  </section>
);

interface ResultProps {
  /** The answer that it shows. */
  readonly of: unknown;
  readonly class?: string;
  readonly children: ComponentChildren;
}

/** Shows what came of something, and takes the focus when it comes, so that it is read out. */
export const Result = ({ of, class: look = "stack", children }: ResultProps) => {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => box.current?.focus(), [of]);
  return (
    <div ref={box} class={look} tabIndex={-1} role="status">
      {children}
    </div>
  );
};

type Tone = "info" | "good" | "warn" | "bad";

export const notice = (tone: Tone, ...children: ComponentChildren[]): VNode => (
  <div class={`notice is-${tone}`} role={tone === "bad" ? "alert" : undefined}>
    {children}
  </div>
);

/**
 * Shows what went wrong, in the relay's own words, field by field.
 * @param again reads what could not be read: offered where that may help
 */
export function problem(error: unknown, again?: () => void): VNode | null {
  if (error === undefined) return null;
  const { errors = [], requestId, status = 500 } = error instanceof ApiRefusal ? error : {};
  return notice(
    "bad",
    <p>{(error as Error).message}</p>,
    errors.length > 0 && (
      <ul>
        {errors.map(({ path, message }) => (
          <li>
            {path && [<code>{path}</code>, " "]}
            {message}
          </li>
        ))}
      </ul>
    ),
    requestId !== undefined && (
      <p class="quiet">
        Request <code>{requestId}</code>
      </p>
    ),
    // 0: there was no answer at all.
    again !== undefined && (status === 0 || status >= 500) && <Button text="Try again" act={again} />,
  );
}

export const empty = (title: string, text: ComponentChildren, ...actions: ComponentChildren[]): VNode => (
  <div class="empty">
    <h2>{title}</h2>
    <p>{text}</p>
    {actions.length > 0 && <div class="row">{actions}</div>}
  </div>
);

export const skeleton = (): VNode => (
  <div class="skeleton" role="status">
    <span class="hidden">Loading…</span>
    <i />
    <i />
    <i />
  </div>
);

interface PageProps {
  readonly title: string;
  readonly kicker?: ComponentChildren;
  readonly actions?: ComponentChildren;
  readonly children: ComponentChildren;
}

/** A view. Its heading takes the focus when it opens, so that it is read out and the keyboard goes on there. */
export const PageFrame = ({ title, kicker, actions, children }: PageProps) => {
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
  return (
    <section class="page">
      <header class="page-head">
        <div>
          {kicker !== undefined && <div class="kicker">{kicker}</div>}
          <h1 ref={heading} tabIndex={-1}>
            {title}
          </h1>
        </div>
        {actions !== undefined && <div class="row">{actions}</div>}
      </header>
      {children}
    </section>
  );
};

/** A short message at the edge, which is read out: something was done. */
export const toast = cell<string | undefined>(undefined);
let telling: ReturnType<typeof setTimeout> | undefined;
export function showToast(text: string): void {
  clearTimeout(telling);
  toast.set(text);
  telling = setTimeout(() => toast.set(undefined), 5_000);
}

export const showFailure = (failure: unknown): void => showToast((failure as Error).message);

interface CopyProps {
  readonly text: string;
  readonly what: string;
  /** Names what it copies, where there are several. */
  readonly named?: boolean;
}

export const Copy = ({ text, what, named }: CopyProps) => {
  const [done, setDone] = useState(false);
  const copy = async (): Promise<void> => {
    await navigator.clipboard.writeText(text);
    setDone(true);
    showToast(`Copied ${what}`);
    setTimeout(() => setDone(false), 2_000);
  };
  const refused = (): void => showToast("The browser does not allow copying here: select it and copy it by hand.");
  const [word, label] = done ? ["Copied", `Copied ${what}`] : [named ? `Copy ${what}` : "Copy", `Copy ${what}`];
  return <Button class="small" text={word} label={label} act={() => void copy().catch(refused)} />;
};

/** Shows what is to be kept, such as a secret, beside a button that copies it. */
export const Kept = ({ text, what }: Pick<CopyProps, "text" | "what">) => (
  <div class="secret">
    <code class="wrap">{text}</code>
    <Copy text={text} what={what} />
  </div>
);

/** Returns true for the second click of a double click, which means one click. */
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
