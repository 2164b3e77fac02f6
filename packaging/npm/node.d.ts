import type { Entries, Ledger } from "./client.js";

export { Client } from "./client.js";
/** A ledger in a file of one process. */
export declare class FileLedger implements Ledger {
  constructor(path: string);
  read(): Entries;
  commit(entries: Entries): void;
}
