// The client of one user, who answers Counts and Means by docs/wire-format.md of ldp-flower.
// It has no dependencies and runs in browsers and in Node.js. A ledger keeps what the user has
// spent and the replies for it; node.js has one that is a file.

const MASK = (1n << 64n) - 1n, GOLDEN = 0x9e3779b97f4a7c15n, WORDS = 1n << 64n;
const MALFORMED = 100, FORBIDDEN = 101, EXHAUSTED = 102, MISCONFIGURED = 103;
const TEXTS = {
  [FORBIDDEN]: "The operator's policy does not allow this mechanism.",
  [EXHAUSTED]: "No addressed user can afford this query: the cost is above what the privacy budget leaves.",
  [MISCONFIGURED]: "The operator has set no policy (max-epsilon).",
};
class Refusal extends Error { constructor(code, text) { super(text ?? TEXTS[code]); this.code = code; } }
const malformed = (text) => { throw new Refusal(MALFORMED, text); };

// ------------------------------------------------------------------------------- public hashes

export function mix(word) {  // SplitMix64's output function
  word = ((word ^ (word >> 30n)) * 0xbf58476d1ce4e5b9n) & MASK;
  word = ((word ^ (word >> 27n)) * 0x94d049bb133111ebn) & MASK;
  return word ^ (word >> 31n);
}
export function derive(...parts) {
  let state = 0n;
  for (const part of parts) state = mix(mix((state + GOLDEN) & MASK) ^ (BigInt(part) & MASK));
  return mix((state + GOLDEN) & MASK);
}

// -------------------------------------------------------------------------- randomness, secret

function systemWord() {
  const [low, high] = crypto.getRandomValues(new Uint32Array(2));
  return (BigInt(high) << 32n) | BigInt(low);
}
const uniform = (bits) => (Number(bits >> 12n) + 0.5) * 2 ** -52;

// ---------------------------------------------------------------------------------- mechanisms

// exp(epsilon) as a fraction of 2^400, rounded down: a double is a fraction of a power of two.
function expRoundedDown(epsilon) {
  const one = 1n << 400n;
  let scaled = 0n;  // epsilon in units of 2^-400, exactly
  for (let rest = epsilon, unit = one; rest > 0; unit >>= 32n) {
    const whole = Math.floor(rest);
    scaled += BigInt(whole) * unit;
    rest = (rest - whole) * 2 ** 32;
  }
  let sum = 0n, term = one;
  for (let k = 1n; term > 0n; k += 1n) { sum += term; term = (term * scaled) / (one * k); }
  return sum - (sum >> 180n);  // below the truth by more than was rounded, by less than 1e-54 of it
}
export function threshold(epsilon, numUnlikely) {  // of one likely output and so many others
  const likely = WORDS << 400n, unlikely = expRoundedDown(epsilon) * (WORDS / BigInt(numUnlikely));
  return (WORDS * unlikely) / (likely + unlikely);
}
function kRandomizedResponse(value, { epsilon, domain_size: size }, word) {
  const fallback = Number(word() % BigInt(size)), likely = word(), index = word();
  const own = Number.isInteger(value) && value >= 0 && value < size ? value : fallback;
  if (likely < threshold(epsilon, size - 1)) return own;
  const other = Number(index % BigInt(size - 1));
  return other + (other >= own ? 1 : 0);
}
function randomizedResponse(value, { epsilon, radius }, word) {
  const clipped = Number.isFinite(value) ? Math.min(Math.max(value / radius, -1), 1) : 0;
  const positive = uniform(word()) < (1 + clipped) / 2, likely = word();
  word();  // which of one likely output
  return positive === likely < threshold(epsilon, 1) ? 1 : 0;
}
const number = (low, high, whole) => (v) =>
  typeof v === "number" && v >= low && v <= high && (!whole || Number.isInteger(v));
const MECHANISMS = {
  KRandomizedResponse: { run: kRandomizedResponse, fields: { epsilon: number(1e-6, 100), domain_size: number(2, 255, true) } },
  RandomizedResponse: { run: randomizedResponse, fields: { epsilon: number(1e-6, 100), radius: number(1e-300, 1e300) } },
};

// ----------------------------------------------------------------------------------- questions

const MOST_CELLS = 65536;
const positive = number(1, MOST_CELLS, true), finite = (v) => Number.isFinite(v);

// Checks that depend on no entry of the user, so that a refusal tells nothing about them.
function check({ coordinates, sizes, levels, low, high, instead }, compute, mechanism, numFeatures) {
  if (!sizes?.every(positive) || !(levels === undefined || (positive(levels) && levels > 1))) malformed("Expected integers as sizes, and levels from 2.");
  if (!coordinates?.every((c) => c >= 0 && c <= numFeatures)) malformed("Expected coordinates of the user's columns.");
  let at = 0;
  for (const size of sizes) at += coordinates[at] === numFeatures ? 1 : size;
  if (at + (levels ? 1 : 0) !== coordinates.length) malformed("Expected the coordinates of all columns.");
  if (levels ? !(finite(low) && finite(high) && low < high) : low !== undefined || high !== undefined) malformed("Expected low < high with levels, and neither without.");
  const cells = sizes.reduce((a, b) => a * b, 1) * (levels ?? 1);
  if (cells > MOST_CELLS) malformed(`Expected at most ${MOST_CELLS} cells.`);
  if (compute === levelRounding ? !levels || instead : instead && !(instead.length === cells && instead.every((w) => finite(w) && w > 0))) malformed("Expected a positive weight for each cell in instead, of a table cell.");
  const size = compute === levelRounding ? undefined : cells + (instead ? 0 : 1);
  if (mechanism.domain_size !== size || (mechanism.radius !== undefined && mechanism.radius < 0.5)) malformed("Expected a mechanism for the question's values.");
}
// Where a user's one row falls: its cell, and how far its number is from one level to the next.
function placed(row, target, { coordinates, sizes, levels, low, high }) {
  const columns = [...row, target];
  let at = 0, cell = 0;
  const entries = coordinates.map((c) => columns[c]);
  for (const size of sizes) {
    const width = coordinates[at] === row.length ? 1 : size, block = entries.slice(at, at + width);
    const place = width === 1 ? block[0] : block.indexOf(Math.max(...block));
    cell = cell * size + Math.min(Math.max(place, 0), size - 1);
    at += width;
  }
  const share = levels ? (entries[at] - low) / (high - low) : 0;
  const there = entries.every((e) => Number.isFinite(e));
  return { there, cell, place: levels ? Math.min(Math.max(share, 0), 1) * (levels - 1) : 0 };
}
function tableCell(row, target, question, rowWord) {
  const state = derive(rowWord, 1);
  const draws = [1n, 2n].map((k) => uniform(mix((state + k * GOLDEN) & MASK)));
  const cells = question.sizes.reduce((a, b) => a * b, 1) * (question.levels ?? 1);
  let { there, cell, place } = placed(row, target, question);
  if (there && question.levels) {
    const level = Math.floor(place);
    cell = cell * question.levels + level + (draws[0] < place - level ? 1 : 0);
  }
  if (there || !question.instead) return there ? cell : cells;
  const total = question.instead.reduce((a, b) => a + b, 0);
  let end = 0;
  for (let i = 0; i < cells - 1; i += 1) if (draws[1] < (end += question.instead[i]) / total) return i;
  return cells - 1;
}
function levelRounding(row, target, question) {
  const { there, place } = placed(row, target, question), f = place - Math.floor(place);
  return there ? 4 * f * (1 - f) - 0.5 : NaN;
}
const QUESTIONS = { table_cell: tableCell, level_rounding: levelRounding };

// ------------------------------------------------------------------------------------ messages

const FIELDS = ["version", "layout", "statistic", "salt", "low", "high", "step"], ARRAYS = ["coordinates", "high", "instead", "low", "sizes"];
const READS = { "<f8": "getFloat64", "<i8": "getBigInt64" };
const own = (table, name, text) => (typeof name === "string" && Object.hasOwn(table, name) ? table[name] : malformed(text));
const isWord = (v) => (typeof v === "string" ? /^\d{1,20}$/.test(v) : Number.isSafeInteger(v) && v >= 0);
const bytesOf = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));
const hexOf = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
function unpack(layout, hex) {
  const payload = new DataView(bytesOf(hex).buffer);
  const arrays = {};
  let at = 0;
  for (const [name, dtype, shape] of JSON.parse(layout)) {
    const read = own(READS, dtype, "Expected a layout of arrays that fits its payload.");
    if (!ARRAYS.includes(name) || name in arrays || (name === "coordinates") !== (dtype === "<i8")) malformed(`Refused array ${name}.`);
    if (shape.length !== 1 || !(shape[0] >= 0) || at + shape[0] * 8 > payload.byteLength) malformed("Expected a layout of arrays that fits its payload.");
    arrays[name] = Array.from({ length: shape[0] }, (_, i) => Number(payload[read](at + i * 8, true)));
    at += shape[0] * 8;
  }
  if (at !== payload.byteLength) malformed("Expected a layout of arrays that fits its payload.");
  return arrays;
}
function parsed(message, numFeatures) {
  const config = { ...message.config };
  if (config.version !== 1) malformed("Expected message format version 1.");
  const extra = Object.keys(config).find((key) => !FIELDS.includes(key) && !key.startsWith("randomizer.") && key !== "param.levels");
  if (extra) malformed(`Unknown field ${extra}.`);
  if (!["salt", "low", "high", "step"].every((key) => isWord(config[key]))) malformed("Expected integers as salt, low, high and step.");
  const arrays = unpack(config.layout, message.payload);
  const take = (prefix) => Object.fromEntries(Object.entries(config).filter(([key]) => key.startsWith(prefix)).map(([key, v]) => [key.slice(prefix.length), v]));
  const mechanism = take("randomizer."), param = take("param.");
  const kind = own(MECHANISMS, mechanism.name, "Refused randomizer.");
  delete mechanism.name;
  const known = Object.keys(kind.fields);
  if (Object.keys(mechanism).sort().join() !== known.sort().join() || !known.every((f) => kind.fields[f](mechanism[f]))) malformed("Refused randomizer.");
  const compute = own(QUESTIONS, config.statistic, "Unknown statistic.");
  const question = { sizes: arrays.sizes, coordinates: arrays.coordinates, levels: param.levels, low: arrays.low?.[0], high: arrays.high?.[0], instead: arrays.instead };
  check(question, compute, mechanism, numFeatures);
  return { config, mechanism, run: kind.run, compute, question };
}

// ---------------------------------------------------------------------------------- the client

export class MemoryLedger {
  kept = { spent: 0, replies: {} };
  read() { return structuredClone(this.kept); }
  commit(ledger) { this.kept = structuredClone(ledger); }
}

export class Client {
  constructor(user, ledger, word = systemWord) { Object.assign(this, { user, ledger, word }); }
  census() {
    const { group, features, "max-epsilon": most } = this.user;
    const exhausted = this.ledger.read().spent + 0.001 > most ? 1 : 0;
    return { census: { group, first: 0, users: 1, seeded: 0, rehearsing: 0, simulated: 0, exhausted, features: features.length } };
  }
  keep(ledger) {
    if (typeof this.ledger.commit(ledger)?.then === "function") throw new TypeError("Expected a ledger whose commit returns when the entries are safe, got a promise.");
  }
  value(compute, question, word) {  // a user never stays silent because of its data
    try { return compute(this.user.features, this.user.target ?? NaN, question, word); } catch { return NaN; }
  }
  report(message) {
    if (!(this.user["max-epsilon"] > 0 && finite(this.user["max-epsilon"]))) throw new Refusal(MISCONFIGURED);
    const { config, mechanism, run, compute, question } = parsed(message, this.user.features.length);
    if (mechanism.epsilon < 0.001 || mechanism.epsilon > this.user["max-epsilon"]) throw new Refusal(FORBIDDEN);
    const place = derive(config.salt, 1, 0, this.user.group, 0) >> 1n;
    if (place < BigInt(config.low) || place >= BigInt(config.high)) malformed("The query addresses no user of this node.");
    const ledger = this.ledger.read(), query = JSON.stringify([Object.entries(config).sort(), message.payload]);
    const isNew = !Object.hasOwn(ledger.replies, query);
    if (isNew) {
      if (!(ledger.spent + mechanism.epsilon <= this.user["max-epsilon"])) throw new Refusal(EXHAUSTED);
      ledger.spent += mechanism.epsilon;
      ledger.replies[query] = "";
      this.keep(ledger);  // paid before data are read
    }
    if (!ledger.replies[query]) {
      // A process that ended while it computed is not tried again: its answer is about no data.
      const word = this.word(), value = isNew ? this.value(compute, question, word) : NaN;
      ledger.replies[query] = hexOf([run(value, mechanism, this.word), 0, 0, 0, 0]);  // reports, slots
      this.keep(ledger);  // before the reply leaves
    }
    return { config: { version: 1, layout: '[["reports", "|u1", [1]], ["slots", "<u4", [1]]]' }, payload: ledger.replies[query] };
  }
  answer(message) {
    try {
      return message.type === "query.census" ? this.census() : this.report(message);
    } catch (error) {
      return error instanceof Refusal ? { error: [error.code, error.message] } : { error: [104, "The client failed; its log says why."] };
    }
  }
}
