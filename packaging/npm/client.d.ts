/** What a user's device knows: its row as the schema codes it, and its operator's policy. */
export interface User {
  group: number | string;
  features: (number | null)[];
  target?: number;
  "max-epsilon"?: number;
}
/** A message as JSON: integers of more than 53 bits are texts, and the payload is in hexadecimal. */
export type Message =
  | { type: "query.census" }
  | { type: "query.report"; config: Record<string, string | number>; payload: string };
export type Reply =
  | { census: Record<string, number | string> }
  | { config: { version: number; layout: string }; payload: string }
  | { error: [code: number, text: string] };
export interface Entries {
  spent: number;
  replies: Record<string, string>;
}
/** What was spent, and the replies for it. `commit` returns when the entries are safe; it returns no promise. */
export interface Ledger {
  read(): Entries;
  commit(entries: Entries): void;
}
export declare class MemoryLedger implements Ledger {
  read(): Entries;
  commit(entries: Entries): void;
}
export declare class Client {
  constructor(user: User, ledger: Ledger, word?: () => bigint);
  answer(message: Message): Reply;
}
export declare function mix(word: bigint): bigint;
export declare function derive(...parts: (bigint | number | string)[]): bigint;
/** The number t of words, of 2**64, at which a likely output is drawn. */
export declare function threshold(epsilon: number, numUnlikely: number): bigint;
