/** Copies a port with some members replaced. */

/** Surrounds the call of a method: `work` makes it. */
type Around = (method: string, args: readonly unknown[], work: () => unknown) => unknown;

/**
 * Returns `target` with some members replaced. Methods keep their own `this`, as a plug-in may be an instance of a class.
 * @param around calls each method that is not replaced; what is no method is then read again each time
 */
export function bound<T extends object>(target: T, over: Partial<T>, around?: Around): T {
  const made: Record<string, unknown> = Object.defineProperties({}, Object.getOwnPropertyDescriptors(over));
  for (let at: object = target; at !== Object.prototype && at !== null; at = Object.getPrototypeOf(at) as object) {
    for (const [name, { get, value }] of Object.entries(Object.getOwnPropertyDescriptors(at))) {
      if (name === "constructor" || name in made) continue;
      if (typeof value === "function") {
        const method = (value as (...args: unknown[]) => unknown).bind(target);
        made[name] = around === undefined ? method : (...args: unknown[]) => around(name, args, () => method(...args));
      } else if (get !== undefined || around !== undefined) {
        const read = get?.bind(target) ?? (() => target[name as keyof T]);
        Object.defineProperty(made, name, { enumerable: true, get: read });
      } else made[name] = value;
    }
  }
  return made as T;
}
