/** Reads what a view shows, and has it read again as things happen. */
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { type ApiAnswer, ApiRefusal, ask, waiting } from "./api.ts";
import { listen, type LiveMessage, opened } from "./live.ts";

export interface LoadState<T> {
  readonly data: T | undefined;
  readonly error: unknown;
  readonly loading: boolean;
  /** Loads again, after a reading that is under way, and keeps the current content until the answer comes. */
  readonly again: () => void;
}

/** A reading that has not been answered for so long, and waits out no refusal, has lost its other end. */
const LOST_MS = 30_000;

/**
 * Loads when the view opens and whenever `on` changes, after the stream has been opened, so that no change is missed between
 * the two. (What was begun with the page is older; then the stream tells when it must be read again.) The earlier content stays until then.
 * @param reread in how many ms a message of the stream has it read again; false: not for that one
 */
export function useLoad<T>(
  read: (signal: AbortSignal) => Promise<T>,
  on: readonly unknown[],
  reread: (message: LiveMessage) => number | false = () => false,
): LoadState<T> {
  const [state, set] = useState<Omit<LoadState<T>, "again">>({ data: undefined, error: undefined, loading: true });
  const [turn, setTurn] = useState(0);
  /** The reading that is under way, and whether another one is due after it. */
  const underWay = useRef<{ readonly since: number; due: boolean } | undefined>(undefined);
  const next = (): void => setTurn((before) => before + 1);
  // Not after the first frame, as effects are otherwise: a view would begin to read one frame later.
  useLayoutEffect(() => {
    const abort = new AbortController();
    const mine = { since: performance.now(), due: false };
    underWay.current = mine;
    set((before) => ({ ...before, loading: true }));
    const over = (now: Partial<LoadState<T>>): void => {
      if (abort.signal.aborted) return;
      underWay.current = undefined;
      set((before) => ({ ...before, ...now, loading: false }));
      if (mine.due) next();
    };
    const reading = opened().then(() => read(abort.signal));
    reading.then(
      (data) => over({ data, error: undefined }),
      (error: unknown) => over({ error }),
    );
    return () => abort.abort();
  }, [...on, turn]);
  const isLost = (): boolean => {
    const { current: now } = underWay;
    return now !== undefined && waiting.now === undefined && performance.now() - now.since > LOST_MS;
  };
  // Messages that come all the time must neither keep a reading from its end, nor cut short what the relay said to wait.
  const again = (): void => {
    if (underWay.current === undefined || isLost()) next();
    else underWay.current.due = true;
  };
  const soon = useCalm(again);
  useLive((message) => {
    const ms = reread(message);
    if (ms !== false) soon(ms);
    // A reading that failed is tried again once the relay can be reached again, or somebody has logged in again.
    const { status = 200 } = state.error instanceof ApiRefusal ? state.error : {};
    if (message.event === "again" && (isLost() || status === 0 || status === 401 || status >= 500)) again();
  });
  return { ...state, again };
}

/** Loads the answer to one request. Its route says what is asked for: another one is read at once. */
export function useAsk<T>(route: string, reread?: (message: LiveMessage) => number | false): LoadState<ApiAnswer<T>> {
  return useLoad((signal) => ask<T>("GET", route, { signal }), [route], reread);
}

export function useLive(onMessage: (message: LiveMessage) => void): void {
  const newest = useRef(onMessage);
  newest.current = onMessage;
  useLayoutEffect(() => listen((message) => newest.current(message)), []);
}

/** Calls every so often while the page is visible. */
export function useEvery(call: () => void, ms: number): void {
  const newest = useRef(call);
  newest.current = call;
  useEffect(() => {
    const timer = setInterval(() => !document.hidden && newest.current(), ms);
    return () => clearInterval(timer);
  }, [ms]);
}

/** Returns a function that calls after a while, once for all calls until then. */
export function useCalm(call: () => void): (ms: number) => void {
  const newest = useRef(call);
  newest.current = call;
  const next = useRef<{ readonly at: number; readonly timer: ReturnType<typeof setTimeout> } | undefined>(undefined);
  useEffect(() => () => clearTimeout(next.current?.timer), []);
  return (ms) => {
    const at = performance.now() + ms;
    if (next.current !== undefined && next.current.at <= at) return;
    clearTimeout(next.current?.timer);
    const timer = setTimeout(() => {
      next.current = undefined;
      newest.current();
    }, ms);
    next.current = { at, timer };
  };
}
