/** Describes a kind of record: the parts of its key, how its text is written and read, and what it belongs to. */
import { type Damage, DamagedRecordError, type RecordKind } from "./errors.ts";
import { ChecksumError, summed, withSum } from "../lib/checksum.ts";

/** A part of a key, by its name. */
export interface Part<Name extends string, T> {
  readonly name: Name;
  write(value: T): string;
  read(text: string): T;
}
export interface AnyPart {
  readonly name: string;
  write(value: never): string;
  read(text: string): unknown;
}
/** The parts of a key by name: `{ keyId, subscriptionId, sequence }`. */
export type IdOf<P extends readonly AnyPart[]> = {
  readonly [One in P[number] as One["name"]]: ReturnType<One["read"]>;
};

/** The text as it is: its room writes and reads it. */
const plain = { write: (it: never): string => it, read: (it: string): never => it as never };
export const text = <N extends string, T extends string = string>(name: N): Part<N, T> => ({ name, ...plain });
/** Key ids and names may hold `:`, which separates parts, so it is written `~` in keys. */
export const escaped = <N extends string>(name: N): Part<N, string> => ({
  name,
  write: (it) => (it.includes(":") ? it.replaceAll(":", "~") : it),
  read: (it) => it.replaceAll("~", ":"),
});
/** A number in so many digits that keys sort by it. Reads as `NaN` when it is none. */
export const digits = <N extends string>(name: N, width: number): Part<N, number> => ({
  name,
  write: (it) => String(Math.max(0, Math.floor(it))).padStart(width, "0"),
  read: Number,
});
/** Epoch ms. */
export const time = <N extends string>(name: N): Part<N, number> => digits(name, 13);

/** Writes and reads the text of a record. */
export interface Codec<T, Id = never> {
  write(value: T): string;
  /**
   * @param key under which it stands, which `kind` reads; empty when that is unknown
   * @throws Error when the text is not one that `write` makes: a ChecksumError when it has been changed
   */
  read(text: string, key: string, kind: { id(key: string): Id }): T;
  /** Returns what the text says of its own key: it must stand there. */
  id?(value: T): Id;
}
/** Words between blanks, which `words` matches, and their checksum. */
export const row = <T>(
  write: (value: T) => readonly (string | number)[],
  words: RegExp,
  read: (found: string[]) => T,
): Codec<T> => ({
  write: (value) => withSum(write(value).join(" ")),
  read(value) {
    const found = words.exec(summed(value) ?? "");
    if (found === null) throw new SyntaxError("the text is not that of a row of its kind");
    return read(found.slice(1));
  },
});
/** JSON without a checksum, of which `is` checks what others rely on. */
export const json = <T extends object>(is: (value: Partial<T>) => boolean): Codec<T> => ({
  write: JSON.stringify,
  read(text) {
    const value = JSON.parse(text) as Partial<T> | null;
    if (value === null || !is(value)) throw new SyntaxError("the JSON is not that of a record of its kind");
    return value as T;
  },
});

/** Stands for a record that cannot be read. */
export const DAMAGED = Symbol("a damaged record");
export type Damaged = typeof DAMAGED;
/** For who treats a damaged record like one that is not there. */
export const unlessDamaged = <T>(value: T | Damaged): T | undefined => (value === DAMAGED ? undefined : value);

export type AnyKind = Kind<readonly AnyPart[], unknown>;
/** Every kind that was made. */
export const kinds: AnyKind[] = [];

export class Kind<const P extends readonly AnyPart[], T = string> {
  readonly prefix: string;
  readonly #parts: P;
  readonly #codec: Codec<T, IdOf<P>>;
  /** The keys of all records of this kind begin like this. */
  readonly start: string;

  constructor(prefix: string, parts: P, codec: Codec<T, IdOf<P>> = plain) {
    [this.prefix, this.#parts, this.#codec] = [prefix, parts, codec];
    this.start = `${prefix}:`;
    kinds.push(this);
  }
  /** Returns whether it is the key of a record of this kind. */
  has(key: string): boolean {
    return key.startsWith(this.start);
  }
  key(id: IdOf<P>): string {
    let key = this.prefix;
    for (const part of this.#parts) key += `:${part.write(id[part.name as keyof IdOf<P>] as never)}`;
    return key;
  }
  /** Returns the prefix of all keys that begin with these parts. With every part given, it is the key itself. */
  under(id: Partial<IdOf<P>>): string {
    let prefix = this.prefix;
    for (const part of this.#parts) {
      const value = id[part.name as keyof IdOf<P>];
      if (value === undefined) return `${prefix}:`;
      prefix += `:${part.write(value as never)}`;
    }
    return prefix;
  }
  /** Returns a text that sorts behind every key that begins with these parts. */
  end(id: Partial<IdOf<P>>): string {
    return `${this.under(id)}~`;
  }
  /**
   * Reads a key. What follows the last `:` that separates parts belongs to the last part.
   * @throws SyntaxError when it is the key of another kind
   */
  id(key: string): IdOf<P> {
    if (!this.has(key)) throw new SyntaxError(`the key is not that of a ${this.prefix}`);
    const id: Record<string, unknown> = {};
    let at = this.start.length;
    for (const [i, part] of this.#parts.entries()) {
      const colon = i === this.#parts.length - 1 ? -1 : key.indexOf(":", at);
      const end = colon < 0 ? key.length : colon;
      id[part.name] = part.read(key.slice(at, end));
      at = end + 1;
    }
    return id as IdOf<P>;
  }
  write(value: T): string {
    return this.#codec.write(value);
  }
  /**
   * Reads the text of a record; `undefined` when there is none.
   * @param key under which it stands: one that says its own key is damaged elsewhere. @default unknown
   */
  read(text: string, key?: string): T | Damaged;
  read(text: string | undefined, key?: string): T | Damaged | undefined;
  read(text: string | undefined, key?: string): T | Damaged | undefined {
    try {
      return text === undefined ? undefined : this.orThrow(text, key);
    } catch (error) {
      if (error instanceof DamagedRecordError) return DAMAGED;
      throw error;
    }
  }
  /** Does the same for who cannot go on. @throws DamagedRecordError */
  orThrow(text: string, key?: string): T {
    let value: T;
    let own: string | undefined;
    try {
      value = this.#codec.read(text, key ?? "", this);
      if (key !== undefined) own = this.#codec.id && this.key(this.#codec.id(value));
    } catch (cause) {
      throw this.#damaged(key, cause instanceof ChecksumError ? "checksum" : "unreadable", cause);
    }
    if (own !== undefined && own !== key) throw this.#damaged(key, "misplaced");
    return value;
  }
  #damaged(key = "", damage: Damage, cause?: unknown): DamagedRecordError {
    return new DamagedRecordError(this.prefix as RecordKind, damage, key, { cause });
  }
  /** @param was the text that the record must still have; `null`: it must not be there */
  put(id: IdOf<P>, value: T, was?: string | null): Extract<Change, { op: "put" }> {
    const key = this.key(id);
    const text = this.#codec.write(value);
    return was === undefined ? { op: "put", key, value: text } : { op: "put", key, value: text, if: was };
  }
  /** @param was the text that the record must still have */
  delete(id: IdOf<P>, was?: string): Extract<Change, { op: "delete" }> {
    const key = this.key(id);
    return was === undefined ? { op: "delete", key } : { op: "delete", key, if: was };
  }
}

/**
 * One change of a commit. `if` makes it conditional: `null` requires that the key is absent, a text that the value is
 * exactly that text. `check` tests the condition and changes nothing.
 */
export type Change =
  | { readonly op: "put"; readonly key: string; readonly value: string; readonly if?: string | null }
  | { readonly op: "delete"; readonly key: string; readonly if?: string }
  | { readonly op: "check"; readonly key: string; readonly if: string | null };
