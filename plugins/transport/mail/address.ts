/** Mail addresses, as far as the relay writes to them. */

export const DOMAIN = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*";

/** One group: the whole address. */
export const ADDRESS = new RegExp(`^([A-Za-z0-9_][A-Za-z0-9._+-]{0,63}@${DOMAIN})$`);
