// The config of the quick start: the defaults, and one receiver on this machine that may be called.
import { defineRelay } from "relaybox";

export default defineRelay({
  dataDir: "../../data",
  // What `relay listen --dir data/listen` serves on, and the authority that signs its certificate.
  guard: { allow: ["127.0.0.1:8443"], ca: "../../data/listen/ca.pem" },
});
