/** One account, as it is stored. */
export interface User {
  /** Never given twice, unlike the name. */
  readonly uid: string;
  readonly username: string;
  readonly password: string;
  /** Key ids, or exactly `["*"]`. */
  readonly keys: readonly string[];
  readonly createdAt: number;
  /** The second factor: its sealed secret, and the last step whose code was used. */
  readonly totp?: { readonly sealed: string; readonly lastStep: number };
  /** A second factor that has not been confirmed yet. */
  readonly pending?: { readonly sealed: string; readonly at: number };
  /** Hashes of the recovery codes that are left. */
  readonly recovery: readonly string[];
}

/** A user with the very text it was read from: a change asks that it be still there. */
export interface Read {
  readonly user: User;
  readonly text: string;
}

/** Names are kept in lower case. */
export const normalName = (username: string): string => username.trim().toLowerCase();
export const userKey = (username: string): string => `user:${username}`;
export const totpAad = ({ uid }: User): string => `totp:${uid}`;
