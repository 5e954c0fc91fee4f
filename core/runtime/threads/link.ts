/**
 * Calls between two threads over a message port. Both sides may call. What one turn of the event loop asks or answers
 * crosses as one message, because a message costs more than most calls.
 */
import type { MessagePort } from "node:worker_threads";
import { StorageError } from "../../model/errors.ts";
import { plainToError, plainError, type PlainError } from "./plain-error.ts";

export type LinkPort = Pick<MessagePort, "postMessage" | "on">;

/** Answers a call of the other side; what it throws is thrown there. */
type Serve = (method: string, args: readonly unknown[]) => unknown;

export interface Link {
  /**
   * Resolves to the answer of the other side.
   * @param receive is called with the answer before any later message is read
   * @throws what the other side throws; Error when call or answer holds what cannot cross; StorageError `uncertain` when it ended meanwhile, so that it may have acted;
   *   `unavailable` when it had ended before
   */
  call<T>(method: string, args: readonly unknown[], receive?: (answer: T) => void): Promise<T>;
  /** Calls without an answer. */
  send(method: string, ...args: readonly unknown[]): void;
  /** The other side has ended: open calls fail, and later ones too. May be called twice. */
  end(): void;
}

/** A call `[id, method, args]`, where an id of 0 wants no answer; or an answer `[-id, value]` or `[-id, undefined, error]`. */
type Entry = readonly [id: number, second: unknown, third?: unknown];

interface Open {
  readonly resolve: (answer: never) => void;
  readonly reject: (error: unknown) => void;
  readonly receive: ((answer: never) => void) | undefined;
}

/** @param heard is called with each message that arrives */
export function createLink(port: LinkPort, serve: Serve, heard?: () => void): Link {
  const open = new Map<number, Open>();
  let parcel: Entry[] = [];
  let ids = 0;
  let ended = false;

  function put(entry: Entry): void {
    if (parcel.length === 0) setImmediate(flush);
    parcel.push(entry);
  }

  function flush(): void {
    const full = parcel;
    parcel = [];
    if (ended) return;
    try {
      port.postMessage(full);
    } catch {
      for (const entry of full) postAlone(entry);
    }
  }

  /** One that holds what cannot cross, such as a function of a plug-in, fails by itself and ends neither thread. */
  function postAlone(entry: Entry): void {
    try {
      port.postMessage([entry]);
    } catch (error) {
      const [id] = entry;
      if (id < 0) port.postMessage([[id, undefined, plainError(error)]]);
      else answered(id, undefined, plainError(error));
    }
  }

  function called(id: number, method: string, args: readonly unknown[]): void {
    const answer = (value: unknown): void => void (id !== 0 && put([-id, value]));
    const refuse = (error: unknown): void => void (id !== 0 && put([-id, undefined, plainError(error)]));
    try {
      const answering = serve(method, args);
      if (answering instanceof Promise) answering.then(answer, refuse);
      else answer(answering);
    } catch (error) {
      refuse(error);
    }
  }

  function answered(id: number, value: unknown, error: PlainError | undefined): void {
    const one = open.get(id);
    if (one === undefined) return;
    open.delete(id);
    if (error !== undefined) return one.reject(plainToError(error));
    one.receive?.(value as never);
    one.resolve(value as never);
  }

  port.on("message", (entries: readonly Entry[]) => {
    heard?.();
    for (const [id, second, third] of entries) {
      if (id >= 0) called(id, second as string, third as readonly unknown[]);
      else answered(-id, second, third as PlainError | undefined);
    }
  });

  return {
    call: (method, args, receive) =>
      new Promise((resolve, reject) => {
        if (ended) return reject(new StorageError("unavailable", "the other thread has ended"));
        const id = ++ids;
        open.set(id, { resolve, reject, receive });
        put([id, method, args]);
      }),
    send(method, ...args) {
      if (!ended) put([0, method, args]);
    },
    end() {
      ended = true;
      const all = [...open.values()];
      open.clear();
      for (const { reject } of all) reject(gone());
    },
  };
}

const gone = (): StorageError => new StorageError("uncertain", "the other thread ended meanwhile");
