/** Replaces or surrounds members of a port. */

/** Surrounds the call of a method: `work` calls it. */
export type Around = (method: string, work: () => unknown) => unknown;

/** Returns `target` with some members replaced. Methods keep their own `this`, as a plug-in may be an instance of a class. */
export function bound<T extends object>(target: T, over: Partial<T>, around?: Around): T {
  const made: Record<string, unknown> = Object.defineProperties({}, Object.getOwnPropertyDescriptors(over));
  for (let at: object = target; at !== Object.prototype && at !== null; at = Object.getPrototypeOf(at) as object) {
    for (const name of Object.getOwnPropertyNames(at)) {
      if (name === "constructor" || name in made) continue;
      const value: unknown = target[name as keyof T];
      if (typeof value !== "function")
        Object.defineProperty(made, name, { enumerable: true, get: () => target[name as keyof T] });
      else {
        const method = (value as (...args: unknown[]) => unknown).bind(target);
        made[name] = around === undefined ? method : (...args: unknown[]) => around(name, () => method(...args));
      }
    }
  }
  return made as T;
}
