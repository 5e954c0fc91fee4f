/** The prefixes of what an erasure deletes: after it, the storage takes the bytes from its files as well. */
export const ERASED = "event: eventid: delivery: attempts: fanout: erasing: erasekey: subscription:".split(" ");
