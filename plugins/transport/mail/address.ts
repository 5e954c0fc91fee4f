/** Mail addresses, as far as the relay writes to them. */

export const LOCAL_PART = "[A-Za-z0-9_][A-Za-z0-9._+-]{0,63}";
export const DOMAIN = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*";
