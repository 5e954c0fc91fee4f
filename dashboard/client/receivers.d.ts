/** Declares the module that the relay makes of the receivers in its guide. */
declare module "relay:receivers" {
  export const receivers: readonly { readonly language: string; readonly code: string }[];
}
