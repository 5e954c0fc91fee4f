/** Groups client addresses that count as one caller. */

/** Returns the group that counts: an IPv4 address (also inside IPv6), or the /64 of a household. */
export function addressGroup(address: string): string {
  const bare = (address.split("%")[0] as string).toLowerCase();
  const embedded = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/.exec(bare);
  if (embedded !== null) return embedded[1] as string;
  if (!bare.includes(":")) return bare;
  const [head = "", tail] = bare.split("::");
  const left = head.split(":").filter(Boolean);
  // A dotted end stands for two groups. Only the first four of eight are read, so their values do not matter.
  const right = (tail ?? "")
    .replace(/\d+\.\d+\.\d+\.\d+$/, "0:0")
    .split(":")
    .filter(Boolean);
  const zeros = tail === undefined ? 0 : Math.max(0, 8 - left.length - right.length);
  const groups = [...left, ...Array<string>(zeros).fill("0"), ...right].slice(0, 4);
  return `${groups.map((group) => Number.parseInt(group, 16).toString(16)).join(":")}::/64`;
}
