// Describes each variable of the environment. Those that the relay reads are in config/environment.ts; a test compares the two.

/** Variable → its meaning, in the order of the page. */
export const VARIABLES: Readonly<Record<string, string>> = {
  RELAY_CONFIG: "the config file",
  RELAY_HOST: "`server.host`",
  RELAY_PORT: "`server.port`",
  RELAY_DATA_DIR: "`dataDir`, relative to where the relay is started",
  RELAY_LOG_LEVEL: "`log.level`",
  RELAY_MASTER_KEY: "the key that seals secrets",
  RELAY_MASTER_KEY_OLDER:
    "former or coming master keys, with commas between, while the key is changed: [secrets](secrets.md)",
  RELAY_WEBHOOK_KEY: "the key of the Ed25519 signatures (`signature.ed25519`)",
  RELAY_WEBHOOK_KEY_OLDER:
    "former or coming keys of these signatures, with commas between, while the key is changed: [verify](verify.md#a-new-key-of-the-relay)",
  RELAY_SIGNING_KEY: "the key that signs access tokens",
  RELAY_PUBLISH_TOKEN: "the token that `http()` takes where it names no own",
  RELAY_JWT_SECRET:
    "`auth: jwt({ secret })` with HS256 and `relaybox` as issuer and audience, where the config names no `auth`: at least 32 bytes. [Its claims](api.md#tokens-of-your-own-issuer)",
  RELAY_REDIS_URL: "`storage: redis({ url })`, unless the config names a `redis()` of its own",
  RELAY_URL: "for commands that ask a relay: where it is",
  RELAY_TOKEN: "for commands that ask a relay: the access token or publish token",
};
