/** What the source needs of the packages of NATS. */

export type NatsLibrary = Pick<
  typeof import("@nats-io/transport-node"),
  "connect" | "credsAuthenticator" | "errors" | "headers"
> &
  Pick<typeof import("@nats-io/jetstream"), "jetstream" | "jetstreamManager">;
