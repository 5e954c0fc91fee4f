/** The part of undici that the transport needs: its index loads fetch, caches and mocks too, 90 files that take 4 MB. */
declare module "undici/lib/dispatcher/client.js" {
  export { Client as default } from "undici";
}
