/** Names the part of an executable that holds an optional package, such as the client of a broker. */

/** @param id the package, as it is imported */
export const packageAsset = (id: string): string => `library-${id.replaceAll("/", "+")}.cjs`;
