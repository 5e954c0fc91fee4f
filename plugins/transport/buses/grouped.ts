/** Does work on what comes together: what comes while a group is under way goes with the next one. */

interface GroupWork<Item, Result> {
  /** A group is no larger than this, but for an item that is larger by itself. */
  readonly mostBytes: number;
  readonly mostItems?: number;
  bytesOf(item: Item): number;
  /** Returns the result of each item, in their order. */
  work(items: readonly Item[]): Promise<readonly Result[]>;
  /** True for an error that one item may have brought on all others of its group: then each half is tried alone. */
  splits?(error: unknown): boolean;
  /** Called when nothing waits any more. */
  idle?(): void;
  /** Resolves when the work on what waits may begin; left out: at once. @param full resolves when as much waits as fits */
  linger?(first: Item, full: Promise<void>): Promise<unknown>;
}

interface Waiting<Item, Result> {
  readonly item: Item;
  readonly dropped: () => boolean;
  readonly resolve: (result: Result | PromiseLike<Result>) => void;
  readonly reject: (error: unknown) => void;
}

export class Grouped<Item, Result> {
  readonly #work: GroupWork<Item, Result>;
  readonly #waiting: Waiting<Item, Result>[] = [];
  #running: Promise<void> | undefined;
  #full = Promise.withResolvers<void>();
  #bytes = 0;

  constructor(work: GroupWork<Item, Result>) {
    this.#work = work;
  }

  /** Resolves when nothing waits any more; `undefined` when that is so already. */
  get running(): Promise<void> | undefined {
    return this.#running;
  }

  /**
   * Resolves to the result of the item.
   * @param dropped asked right before the work: true leaves the item out, and nothing is said of it
   * @throws what the work threw for the item alone, or for a group that is not split
   */
  add(item: Item, dropped: () => boolean): Promise<Result> {
    const { promise, resolve, reject } = Promise.withResolvers<Result>();
    this.#waiting.push({ item, dropped, resolve, reject });
    this.#bytes += this.#work.bytesOf(item);
    this.#filled();
    this.#running ??= this.#run();
    return promise;
  }

  /** Never rejects: the promise of each item settles with its own result. */
  async #run(): Promise<void> {
    // Gathers what this turn of the event loop adds.
    await new Promise((turned) => setImmediate(turned));
    for (let first = this.#waiting[0]; first !== undefined; first = this.#waiting[0]) {
      await this.#work.linger?.(first.item, this.#full.promise);
      this.#full = Promise.withResolvers<void>();
      const group = this.#take();
      this.#filled();
      await this.#do(group);
    }
    // In the same step as the last check, so that no item comes in between and waits for the next one.
    this.#running = undefined;
    this.#work.idle?.();
  }

  #filled(): void {
    const { mostBytes, mostItems = Infinity } = this.#work;
    if (this.#bytes >= mostBytes || this.#waiting.length >= mostItems) this.#full.resolve();
  }

  #take(): Waiting<Item, Result>[] {
    const { mostBytes, mostItems = Infinity, bytesOf } = this.#work;
    let bytes = 0;
    let count = 0;
    for (const { item } of this.#waiting) {
      bytes += bytesOf(item);
      if (count > 0 && (bytes > mostBytes || count === mostItems)) break;
      count++;
    }
    const group = this.#waiting.splice(0, count);
    for (const { item } of group) this.#bytes -= bytesOf(item);
    return group;
  }

  /** Halves are done one after the other, so that the items keep their order. */
  async #do(all: readonly Waiting<Item, Result>[]): Promise<void> {
    const group = all.filter(({ dropped }) => !dropped());
    if (group.length === 0) return;
    try {
      const results = await this.#work.work(group.map(({ item }) => item));
      for (const [i, { resolve }] of group.entries()) resolve(results[i] as Result);
    } catch (error) {
      if (group.length === 1 || this.#work.splits?.(error) !== true)
        return group.forEach(({ reject }) => reject(error));
      const half = Math.ceil(group.length / 2);
      await this.#do(group.slice(0, half));
      await this.#do(group.slice(half));
    }
  }
}

/** Groups by destination: destinations do not wait for each other. */
export class GroupedBy<Item, Result> {
  readonly #destinationOf: (item: Item) => string;
  readonly #make: (destination: string) => GroupWork<Item, Result>;
  /** By destination, while work on it is under way. */
  readonly #groups = new Map<string, Grouped<Item, Result>>();

  constructor(destinationOf: (item: Item) => string, make: (destination: string) => GroupWork<Item, Result>) {
    this.#destinationOf = destinationOf;
    this.#make = make;
  }

  /** As `Grouped.add`. */
  add(item: Item, dropped: () => boolean): Promise<Result> {
    const destination = this.#destinationOf(item);
    let group = this.#groups.get(destination);
    if (group === undefined) {
      const idle = (): void => void this.#groups.delete(destination);
      group = new Grouped({ ...this.#make(destination), idle });
      this.#groups.set(destination, group);
    }
    return group.add(item, dropped);
  }
}
