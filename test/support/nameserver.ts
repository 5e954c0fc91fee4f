/** A name server on loopback that answers A and AAAA questions as a test says (RFC 1035). */
import { createSocket } from "node:dgram";
import { parseAddress } from "../../core/guard/ip-address.ts";

/** Addresses of a name; or a failure; or no answer at all. */
export type Answer = readonly string[] | "NXDOMAIN" | "SERVFAIL" | "silence";

export interface NameServer extends AsyncDisposable {
  /** `127.0.0.1:<port>` */
  readonly address: string;
  /** Names that were asked for, one entry a question. */
  readonly asked: readonly string[];
}

const CODES = { SERVFAIL: 2, NXDOMAIN: 3 } as const;
const AAAA = 28;

export const startNameServer = async (answer: (name: string, wants6: boolean) => Answer): Promise<NameServer> => {
  const socket = createSocket("udp4");
  const asked: string[] = [];
  socket.on("message", (query, from) => {
    const { name, end } = readName(query);
    const wants6 = query.readUInt16BE(end) === AAAA;
    asked.push(name);
    const given = answer(name, wants6);
    if (given === "silence") return;
    const code = typeof given === "string" ? CODES[given] : 0;
    const records = typeof given === "string" ? [] : given.filter((address) => address.includes(":") === wants6);
    const header = Buffer.from(query.subarray(0, 12));
    header.writeUInt16BE(0x8180 | code, 2);
    header.writeUInt16BE(records.length, 6);
    header.fill(0, 8, 12);
    const question = query.subarray(12, end + 4);
    socket.send(Buffer.concat([header, question, ...records.map(record)]), from.port, from.address);
  });
  await new Promise<void>((resolve) => void socket.bind(0, "127.0.0.1", resolve));
  return {
    address: `127.0.0.1:${socket.address().port}`,
    asked,
    [Symbol.asyncDispose]: () => new Promise((resolve) => void socket.close(resolve)),
  };
};

const readName = (query: Buffer): { name: string; end: number } => {
  const labels: string[] = [];
  let at = 12;
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString("latin1", at + 1, at + 1 + length));
    at += length + 1;
  }
  return { name: labels.join(".").toLowerCase(), end: at + 1 };
};

/** One answer: a pointer to the question's name, class IN, no time to live. */
const record = (text: string): Buffer => {
  const { family = 4, value = 0n } = parseAddress(text) ?? {};
  const size = family === 4 ? 4 : 16;
  const data = Buffer.from(value.toString(16).padStart(size * 2, "0"), "hex");
  return Buffer.concat([Buffer.from([0xc0, 12, 0, family === 4 ? 1 : AAAA, 0, 1, 0, 0, 0, 0, 0, size]), data]);
};
