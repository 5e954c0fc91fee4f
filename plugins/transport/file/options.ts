/** The options of `toFile()`. */

export interface FileOptions {
  /** Name of the folder in URLs: `file://<name>/deposits`. */
  readonly name: string;
  /** The folder; a relative path starts at the config. It is made if it is not there, and belongs to one relay alone. */
  readonly dir: string;
  /** A file that would grow beyond this, in bytes, is closed, and the next line begins a new one. @default 268_435_456 */
  readonly maxBytes?: number;
  /** How many closed files of each path are kept; the oldest are removed. All of them are kept without it. */
  readonly keep?: number;
}
