/** Reads the `Host` that a client names. */

const HOST = /^(?:[\w.-]+|\[[\da-f:.]+\])(?::\d{1,5})?$/i;

/** Returns it in lower case where it is a host, with its port if it has one, and nothing else: a link may begin with it. */
export function saidHost(header: string | undefined): string | undefined {
  const host = header?.toLowerCase();
  return host !== undefined && HOST.test(host) && URL.canParse(`https://${host}`) ? host : undefined;
}
