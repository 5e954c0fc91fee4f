/** Which host names of a URL stand for this machine: over them plain HTTP shows nothing to a network. */

/** @param hostname as `URL.hostname` has it: an IPv6 address in brackets */
export const isLoopbackHost = (hostname: string): boolean =>
  hostname === "localhost" ||
  hostname.endsWith(".localhost") ||
  hostname === "[::1]" ||
  /^127(?:\.\d+){3}$/.test(hostname);
