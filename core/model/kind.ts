/** Describes a kind of record: the parts of its key, and what it belongs to. */

/** A part of a key, by its name. */
interface Part<Name extends string, T> {
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
type IdOf<P extends readonly AnyPart[]> = {
  readonly [One in P[number] as One["name"]]: ReturnType<One["read"]>;
};

export const text = <N extends string, T extends string = string>(name: N): Part<N, T> => ({
  name,
  write: (it) => it,
  read: (it) => it as T,
});
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

/** A record goes when what it belongs to is erased. */
export type Owner = "relay" | "key" | "subscription" | "event";

export class Kind<const P extends readonly AnyPart[]> {
  readonly prefix: string;
  readonly owner: Owner;
  readonly #parts: P;
  /** The keys of all records of this kind begin like this. */
  readonly start: string;

  constructor(prefix: string, owner: Owner, parts: P) {
    this.prefix = prefix;
    this.owner = owner;
    this.#parts = parts;
    this.start = `${prefix}:`;
  }
  /** Whether it is the key of a record of this kind. */
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
}

export type AnyKind = Kind<readonly AnyPart[]>;
