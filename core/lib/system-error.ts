/** Says in words why a call of the operating system failed, with the code by which it can be looked up. */

const WORDS: Readonly<Record<string, string>> = {
  EACCES: "this user may not do that there",
  EPERM: "this user may not do that there",
  EADDRINUSE: "something else listens there",
  EADDRNOTAVAIL: "it is no address of this machine",
  EEXIST: "something else has that name",
  EISDIR: "it is a folder",
  EMFILE: "too many files are open",
  ENOENT: "there is no such file or folder",
  ENOSPC: "the disk is full",
  ENOTDIR: "a part of the path is no folder",
  EROFS: "the disk is read-only",
};

/** @returns `there is no such file or folder (ENOENT)`; the message of an error that is none of these */
export function systemReason(error: unknown): string {
  const { code = "", message = String(error) } = error as { readonly code?: string; readonly message?: string };
  const words = WORDS[code];
  return words === undefined ? message : `${words} (${code})`;
}

/** @returns `names a file that cannot be read (ENOENT): /etc/relay/ca.pem`, as a problem of the option that names the file */
export function unreadable(error: unknown, file: string): string {
  const { code = "unreadable" } = error as { readonly code?: string };
  return `names a file that cannot be read (${code}): ${file}`;
}
