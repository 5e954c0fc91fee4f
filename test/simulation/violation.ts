/** A promise that was broken. */
export class Violation extends Error {}

export const fail = (text: string): never => {
  throw new Violation(text);
};
