/** Starts TLS over a connected socket, with full verification that nothing can switch off. */
import type { Socket } from "node:net";
import { connect } from "node:tls";
import { causeOf, nextStep } from "../lib/reason.ts";
import { ConnectError } from "../model/errors.ts";
import { awaitSocket } from "./await-socket.ts";
import type { TlsSessions } from "./tls-sessions.ts";
import type { TrustedContext } from "./trust.ts";

interface SecureOptions {
  /** A name, or an address literal without brackets: the subject that the certificate must have. */
  readonly host: string;
  /** True when `host` is an address: then it is not sent as a server name (RFC 6066 §3). */
  readonly literal: boolean;
  readonly port: number;
  readonly alpn: readonly string[];
}

/**
 * Opens a socket and starts TLS over it. A server that refuses the session which it is offered gets one full handshake, on a
 * new connection: no byte of a request was sent.
 * @param trusted is asked once the socket is open: the next identity replaces the certificate of a shared context
 * @throws what `open` throws, ConnectError `tls`, or the signal's reason
 */
export async function secure(
  open: () => Promise<Socket>,
  options: SecureOptions,
  trusted: () => TrustedContext,
  sessions: TlsSessions,
  signal: AbortSignal,
): Promise<Socket> {
  try {
    return await handshake(await open(), options, trusted(), sessions, signal);
  } catch (error) {
    if (!(error instanceof SessionRefused)) throw error;
    return await handshake(await open(), options, trusted(), sessions, signal);
  }
}

/** No session is kept of such a server for a while, so the next handshake offers none. */
class SessionRefused extends ConnectError {}

/** Takes over the socket, and destroys it on any failure. @throws ConnectError `tls`, or the signal's reason */
const handshake = async (
  socket: Socket,
  { host, literal, port, alpn }: SecureOptions,
  { context, scope }: TrustedContext,
  sessions: TlsSessions,
  signal: AbortSignal,
): Promise<Socket> => {
  if (signal.aborted) socket.destroy();
  signal.throwIfAborted();
  // Sessions are of one name, port and identity: the certificate was verified for that name, against those authorities.
  const server = `${scope} ${host} ${port}`;
  const offered = sessions.take(server);
  const secured = connect({
    socket,
    session: offered?.session,
    secureContext: context,
    host,
    servername: literal ? "" : host,
    ALPNProtocols: [...alpn],
    // Explicit, because NODE_TLS_REJECT_UNAUTHORIZED=0 in the environment would change the default.
    rejectUnauthorized: true,
  });
  try {
    return await awaitSocket<Socket>(secured, signal, (resolve, fail) => {
      const refused = (message: string, code?: string): void => {
        if (offered !== undefined) sessions.refuse(server);
        // With a certificate that is not trusted, the handshake was a full one.
        const isRefusal = offered !== undefined && !secured.authorizationError;
        fail(new (isRefusal ? SessionRefused : ConnectError)("tls", message, code));
      };
      const failed = (error: Error): void => refused(`TLS: ${causeOf(error)}`, codeOf(error));
      return {
        secureConnect() {
          if (!secured.authorized) return failed(secured.authorizationError);
          sessions.watch(server, secured, offered);
          resolve(secured);
        },
        error: failed,
        close: () => refused(`TLS: ${CLOSED}: ${nextStep(CLOSED)}`),
      };
    });
  } catch (error) {
    socket.destroy();
    throw error;
  }
};

const codeOf = (error: Error): string | undefined =>
  "code" in error && typeof error.code === "string" ? error.code : undefined;

const CLOSED = "the connection was closed in the handshake";
