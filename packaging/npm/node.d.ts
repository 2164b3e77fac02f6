import type { Entries, Ledger } from "./client.js";

export { Client } from "./client.js";
/** A ledger in a file of one process. The file must exist: `create` makes it once. */
export declare class FileLedger implements Ledger {
  static create(path: string): void;
  constructor(path: string);
  close(): void;
  read(): Entries;
  commit(entries: Entries): void;
}
