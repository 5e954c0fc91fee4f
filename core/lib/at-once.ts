/** Functions of the config whose results are needed at once: a promise would pass for a result, and hold none. */

/** Returns true for an async function. One that returns a promise in another way is known by its result alone. */
export const isAsync = (given: unknown): boolean =>
  typeof given === "function" && given.constructor.name === "AsyncFunction";

/** Says what is wrong with such a function, as a problem of the config. */
export const NOT_ASYNC = "must not be async: it returns its result at once";

/**
 * Returns the result of such a function.
 * @param name of the function, for people
 * @throws Error when it is a promise. What that rejects with is passed over: it would end the process
 */
export function atOnce<T>(name: string, result: T): T {
  if (!(result instanceof Promise)) return result;
  result.catch(() => undefined);
  throw new Error(`${name} has returned a promise: it must return its result at once`);
}
