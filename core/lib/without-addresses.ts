/** Takes addresses out of what other systems say of themselves, where it is shown to people who are to learn none. */

/**
 * An address: a node such as `rabbit@host`, a host with its port, an IP address, a host that DNS does not know, or one that a certificate names. The key of
 * a stream (`orders:paid`) is none.
 */
const ADDRESS = new RegExp(
  [
    String.raw`(?<![\w.-])[\w.-]+@[\w.-]*\w`,
    String.raw`\[[0-9a-f:.]*:[0-9a-f:.]*\](?::\d+)?`,
    String.raw`(?<![\w:.])(?:[0-9a-f]{0,4}:){2,}[0-9a-f]{1,4}(?:(?:\.\d{1,3}){3})?(?::\d+)?(?![\w:])`,
    String.raw`(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?(?![\w.])`,
    String.raw`(?<![\w.:-])[a-z][\w-]*(?:\.[\w-]+)*:\d{2,5}(?![\w.:-])`,
    String.raw`(?<=\b(?:ENOTFOUND|EAI_AGAIN) )\S+`,
    String.raw`(?<=\b(?:DNS|IP Address|URI):)[^\s,]+`,
  ].join("|"),
  "gi",
);

export const withoutAddresses = (text: string): string => text.replaceAll(ADDRESS, "…");
