// ------------------------------------------------------------------ the page docs/one-report.md
// It follows packaging/npm/client.js in the same script, which defines Client and MemoryLedger.

const FRUIT = ["apple", "pear", "plum"], NOTHING = "no answer", MOST = 4, PEOPLE = 1000;
const form = document.getElementById("report-form");
const shown = (name) => form.querySelector(`[data-show=${name}]`);
const epsilon = () => Number(form.elements.epsilon.value);
const answer = () => Number(form.elements.fruit.value);
const reading = (byte) => [...FRUIT, NOTHING][byte];
const salt = `${systemWord() >> 1n}`;
let device, step;

for (const [index, fruit] of [...FRUIT, NOTHING].entries()) {
  const label = document.createElement("label"), input = document.createElement("input");
  Object.assign(input, { type: "radio", name: "fruit", value: index, checked: index === 1 });
  label.append(input, ` ${fruit} `);
  form.querySelector("fieldset").append(label);
}

function newDevice() {
  const words = [];
  // The row: an intercept, and a column for each fruit, which are missing without an answer.
  const row = FRUIT.map((_, index) => (answer() === FRUIT.length ? NaN : Number(index === answer())));
  const user = { group: 1, features: [1, ...row], "max-epsilon": MOST };
  const word = () => { words.push(systemWord()); return words.at(-1); };
  return { words, client: new Client(user, new MemoryLedger(), word) };
}

function query() {
  const bytes = new DataView(new ArrayBuffer(8 * (FRUIT.length + 1)));
  FRUIT.forEach((_, index) => bytes.setBigInt64(8 * index, BigInt(index + 1), true));
  bytes.setFloat64(8 * FRUIT.length, FRUIT.length, true);
  const config = {
    version: 1, layout: `[["coordinates", "<i8", [${FRUIT.length}]], ["sizes", "<f8", [1]]]`,
    statistic: "table_cell", salt, step, low: "0", high: `${1n << 63n}`,
    "randomizer.name": "KRandomizedResponse", "randomizer.epsilon": epsilon(), "randomizer.domain_size": FRUIT.length + 1,
  };
  return { type: "query.report", config, payload: hexOf(new Uint8Array(bytes.buffer)) };
}
const firstByte = (reply) => parseInt(reply.payload.slice(0, 2), 16);

function show(reply) {
  const { client, words } = device, { spent } = client.ledger.read();
  const drawn = words.map((word) => word.toString(16).padStart(16, "0")).join(" ");
  shown("stays").textContent = `the answer ${reading(answer())}, ${drawn ? `the random words ${drawn}` : "no random words yet"}, and a ledger: ${spent} of ${MOST} spent.`;
  form.elements.same.disabled = step === 0;
  shown("leaves").textContent = reply ? JSON.stringify(reply) : "nothing yet: this is a new device";
  const times = Math.exp(epsilon()).toLocaleString("en", { maximumSignificantDigits: 2 });
  shown("reads").textContent = !reply ? ""
    : reply.error ? "A refusal, which depends on the ledger only."
    : `The first byte reads "${reading(firstByte(reply))}". People with this answer send it ${times} times as often as others do. The other four bytes are the user's place on the device, 0.`;
}

function showLaw(counts) {
  const size = FRUIT.length + 1, likely = Number(threshold(epsilon(), size - 1)) / 2 ** 64;
  const rows = Array.from({ length: size }, (_, byte) => {
    const row = document.createElement("tr"), share = byte === answer() ? likely : (1 - likely) / (size - 1);
    const cells = [`0${byte}`, reading(byte), `${(100 * share).toFixed(1)} %`, counts ? counts[byte] : ""];
    for (const text of cells) row.append(Object.assign(document.createElement("td"), { textContent: text }));
    return row;
  });
  form.querySelector("tbody").replaceChildren(...rows);
}

function restart() {
  form.querySelector("output").textContent = epsilon();
  [device, step] = [newDevice(), 0];
  show();
  showLaw();
}

form.addEventListener("input", restart);
form.elements.next.addEventListener("click", () => { step += 1; show(device.client.answer(query())); });
form.elements.same.addEventListener("click", () => { show(device.client.answer(query())); });
form.elements.many.addEventListener("click", () => {
  const counts = Array(FRUIT.length + 1).fill(0);
  step = Math.max(step, 1);
  for (let i = 0; i < PEOPLE; i += 1) counts[firstByte(newDevice().client.answer(query()))] += 1;
  showLaw(counts);
});
restart();
