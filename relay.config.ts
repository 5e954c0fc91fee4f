// The config of a relay. What is commented out shows the default, or an example where it says so.
// Durations are in milliseconds; paths are relative to this file. `relay check` tells every problem at once.
import { accounts, defineRelay, http, https, retention, sqlite } from "relaybox";

export default defineRelay({
  // The relay's own files: keys, the database. Made at first start.
  dataDir: "./data",

  server: {
    host: "127.0.0.1",
    port: 8080,
    // trustedProxies: ["10.0.0.0/8"],                  // example: whose X-Forwarded-For is believed
    // tls: { cert: "./cert.pem", key: "./key.pem" },   // example: serve HTTPS
    // shutdownMs: 9_000,
  },

  // Where events are kept: sqlite(), filesystem(), memory(); redis({ url }) for several nodes.
  storage: sqlite(),

  // Where events come from: http() is POST /events, spool({ dir }) takes NDJSON files from a folder.
  // http() asks for the token in data/keys/publish-token, or RELAY_PUBLISH_TOKEN, or those it is given:
  // http({ tokens: [process.env.PUBLISH_TOKEN!, { token: "…", keys: ["key_1"] }] })
  sources: [http()],

  // How deliveries leave.
  transports: [https()],

  // Who may use the management API. accounts() is the relay's own issuer. With an identity provider (example):
  // jwt({ publicKey: "…", algorithms: ["EdDSA"], issuer: "https://id.example.com/", audience: "relaybox" })
  auth: accounts(),

  // Event names that may be published (example); any well-formed name when left out.
  // An object says more of each: events: { "deposit:paid": { schema: { type: "object" }, example: {} } }
  // events: ["deposit:paid", "withdraw:sent"],

  // 5 attempts in all; they wait 5, 20, 80 and 320 s for each other.
  // retry: { attempts: 5, firstDelayMs: 5_000, factor: 4, maxDelayMs: 3_600_000 },
  // delivery: { timeoutMs: 10_000, concurrency: 512 },

  // Bodies under way, in bytes: publishers beyond that are told to come back.
  // intake: { maxBodyBytes: 67_108_864 },

  // What may be called beyond the public internet on port 443 (example).
  // guard: { allow: ["10.2.0.0/16:8443", "hooks.corp.lan:*"], ca: "./internal-ca.pem" },

  // Rows of the limits table: requests in 60 s and in 5 s; false switches one off.
  // limits: { "POST /api-keys/{keyId}/webhooks": { perMinute: 15, per5s: 3 } },

  jobs: [
    // Events that were delivered go after 30 days; pending and failed ones stay.
    retention({ schedule: "0 3 * * *", deliveredAfterMs: 30 * 86_400_000 }),
    // Every quarter of an hour, what failed in the last 3 days gets another round (example; import replay too).
    // replay({ schedule: "*/15 * * * *", olderThanMs: 600_000, maxAgeMs: 3 * 86_400_000, maxReplays: 24 }),
  ],

  dashboard: true,
});
