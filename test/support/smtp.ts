/** A small SMTP server on real sockets: STARTTLS or TLS from the start, a login, and answers as a test says. */
import { once } from "node:events";
import { createServer, type AddressInfo, type Socket } from "node:net";
import { TLSSocket, createSecureContext, type SecureContext } from "node:tls";
import { loopbackCertificate } from "./certificates.ts";

export interface ReceivedMail {
  readonly from: string;
  readonly to: string;
  readonly secure: boolean;
  readonly user: string | undefined;
  /** Lower-case names, unfolded. */
  readonly headers: Readonly<Record<string, string>>;
  /** The text for people. */
  readonly text: string;
  /** The attachment, byte for byte. */
  readonly attached: Buffer;
}

export interface SmtpServer extends AsyncDisposable {
  readonly port: number;
  readonly mails: readonly ReceivedMail[];
  /** The answer to a command from now on: `{ "RCPT TO": "550 5.1.1 unknown" }`. */
  answers: Readonly<Record<string, string>>;
  /** Connections that are open. */
  open(): number;
  waitFor(count: number): Promise<readonly ReceivedMail[]>;
}

export interface SmtpOptions {
  readonly starttls?: boolean;
  /** TLS from the first byte. */
  readonly secure?: boolean;
  readonly login?: { readonly user: string; readonly password: string };
}

/** An answer that is none: the client waits. */
export const SILENCE = "";

interface Shared {
  readonly options: SmtpOptions;
  answers: SmtpServer["answers"];
  take(mail: ReceivedMail): void;
}

/** One session, over the bare socket and after STARTTLS over the encrypted one. */
class Session {
  readonly server: Shared;
  readonly secureContext: SecureContext;
  user: string | undefined;
  from = "";
  to = "";

  constructor(server: Shared, secureContext: SecureContext) {
    this.server = server;
    this.secureContext = secureContext;
  }

  serve(socket: Socket, secure: boolean, greet: boolean): void {
    let buffered = "";
    let reading = false;
    const say = (text: string): void => void (text === SILENCE || socket.write(`${text}\r\n`));
    const onData = (chunk: Buffer): void => {
      buffered += chunk.toString("latin1");
      for (;;) {
        const mark = reading ? "\r\n.\r\n" : "\r\n";
        const end = buffered.indexOf(mark);
        if (end < 0) return;
        const taken = buffered.slice(0, end);
        buffered = buffered.slice(end + mark.length);
        if (reading) {
          reading = false;
          this.server.take(mailOf(taken, this, secure));
          say(this.server.answers["."] ?? "250 2.0.0 queued as 42");
          continue;
        }
        const command = /^(?:MAIL FROM|RCPT TO|[A-Za-z]+)/i.exec(taken)?.[0].toUpperCase() ?? "";
        const given = this.server.answers[command];
        if (given !== undefined) {
          say(given);
          continue;
        }
        if (command === "STARTTLS" && this.server.options.starttls !== false) {
          socket.off("data", onData);
          say("220 go ahead");
          const encrypted = new TLSSocket(socket, { isServer: true, secureContext: this.secureContext });
          encrypted.on("error", () => socket.destroy());
          this.serve(encrypted, true, false);
          return;
        }
        reading = command === "DATA";
        say(this.#answer(command, taken, secure));
        if (command === "QUIT") socket.end();
      }
    };
    socket.on("data", onData);
    if (greet) say(this.server.answers["greeting"] ?? "220 mail.test ready");
  }

  #answer(command: string, line: string, secure: boolean): string {
    const { starttls = true, login } = this.server.options;
    switch (command) {
      case "EHLO": {
        const offers = [...(starttls && !secure ? ["STARTTLS"] : []), ...(login ? ["AUTH PLAIN"] : [])];
        return ["mail.test", ...offers]
          .map((one, i, all) => `250${i === all.length - 1 ? " " : "-"}${one}`)
          .join("\r\n");
      }
      case "AUTH": {
        const [, user, password] = Buffer.from(line.split(" ")[2] ?? "", "base64")
          .toString()
          .split("\0");
        if (user !== login?.user || password !== login?.password) return "535 5.7.8 wrong";
        this.user = user;
        return "235 2.7.0 welcome";
      }
      case "MAIL FROM":
        if (login !== undefined && this.user === undefined) return "530 5.7.0 log in";
        this.from = /<(.*?)>/.exec(line)?.[1] ?? "";
        return "250 ok";
      case "RCPT TO":
        this.to = /<(.*?)>/.exec(line)?.[1] ?? "";
        return "250 ok";
      case "DATA":
        return "354 go on";
      case "STARTTLS":
        return "502 5.5.1 not here";
      case "QUIT":
        return "221 bye";
      default:
        return "250 ok";
    }
  }
}

function mailOf(raw: string, { from, to, user }: Session, secure: boolean): ReceivedMail {
  const whole = partOf(raw.replaceAll("\r\n..", "\r\n."));
  const boundary = /boundary="?([^";]+)/.exec(whole.headers["content-type"] ?? "")?.[1] ?? "";
  const parts = whole.body
    .split(`--${boundary}`)
    .slice(1, -1)
    .map((text) => partOf(text.replace(/^\r\n/, "")));
  const text = parts.find(({ headers }) => headers["content-type"]?.startsWith("text/plain"));
  const attached = parts.find(({ headers }) => headers["content-disposition"]?.startsWith("attachment"));
  return {
    from,
    to,
    secure,
    user,
    headers: whole.headers,
    text: decoded(text).toString(),
    attached: decoded(attached),
  };
}

interface Part {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

function partOf(text: string): Part {
  const end = text.indexOf("\r\n\r\n");
  const lines = text
    .slice(0, end)
    .replaceAll(/\r\n[ \t]+/g, " ")
    .split("\r\n");
  const headers = lines.map((line) => [
    line.slice(0, line.indexOf(":")).toLowerCase(),
    line.slice(line.indexOf(":") + 1).trim(),
  ]);
  return { headers: Object.fromEntries(headers), body: text.slice(end + 4) };
}

function decoded(part: Part | undefined): Buffer {
  if (part === undefined) return Buffer.alloc(0);
  const body = part.body.replace(/\r\n$/, "");
  switch (part.headers["content-transfer-encoding"]) {
    case "base64":
      return Buffer.from(body, "base64");
    case "quoted-printable": {
      const plain = body
        .replaceAll(/=\r\n/g, "")
        .replaceAll(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
      return Buffer.from(plain, "latin1");
    }
    default:
      return Buffer.from(body, "latin1");
  }
}

export async function startSmtp(options: SmtpOptions = {}): Promise<SmtpServer> {
  const secureContext = createSecureContext(await loopbackCertificate());
  const sockets = new Set<Socket>();
  const mails: ReceivedMail[] = [];
  const waiting: { readonly count: number; readonly go: (mails: readonly ReceivedMail[]) => void }[] = [];
  const shared = {
    options,
    answers: {} as SmtpServer["answers"],
    take(mail: ReceivedMail) {
      mails.push(mail);
      for (const one of waiting) if (mails.length >= one.count) one.go(mails);
    },
  };
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined).on("close", () => sockets.delete(socket));
    const session = new Session(shared, secureContext);
    if (options.secure !== true) return session.serve(socket, false, true);
    const encrypted = new TLSSocket(socket, { isServer: true, secureContext });
    encrypted.on("error", () => socket.destroy());
    session.serve(encrypted, true, true);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    mails,
    get answers() {
      return shared.answers;
    },
    set answers(given) {
      shared.answers = given;
    },
    open: () => sockets.size,
    waitFor: (count) =>
      mails.length >= count ? Promise.resolve(mails) : new Promise((go) => waiting.push({ count, go })),
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}
