/** Reads the text of what comes from outside: a body, a message, a file, a secret. */

const decoder = new TextDecoder("utf-8", { fatal: true });

/**
 * Returns the text of UTF-8 bytes without the byte order mark that some editors, shells and clients put in front. Bytes that are
 * not UTF-8 are refused, never replaced: a signed body must be what was published.
 * @throws TypeError with the code ERR_ENCODING_INVALID_ENCODED_DATA
 */
export const utf8Text = (bytes: Uint8Array): string => decoder.decode(bytes);

const MARK = "\u{feff}";

/** Returns a text that is decoded already without the mark. */
export const unmarked = (text: string): string => (text.startsWith(MARK) ? text.slice(MARK.length) : text);
