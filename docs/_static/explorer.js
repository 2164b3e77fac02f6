// The page docs/explorer.md: four sliders, and the plans of the grid that is embedded in it.
"use strict";

const { axes, limits, errors } = JSON.parse(document.getElementById("explorer-grid").textContent);
const form = document.getElementById("explorer");
const [WIDTH, HEIGHT, LEFT, BOTTOM, ROOM] = [320, 170, 44, 36, 8];

const number = (value) => value.toLocaleString("en", { maximumSignificantDigits: 2 });
const counted = (value) => value.toLocaleString("en");

// What an error means, and how its axis is labelled.
const questions = {
  means: {
    axis: "standard error, % of the width",
    unit: 100,
    text: (error) => `are known to ± ${number(100 * error)} % of the width of a column's bounds.`,
  },
  shares: {
    axis: "standard error, percentage points",
    unit: 100,
    text: (error) => `are known to ± ${number(100 * error)} percentage points.`,
  },
  regression: {
    axis: "explained variance lost, points",
    unit: 100,
    text: (error) => {
      const left = Math.max(limits.explained - error, 0);
      return `explains ${number(100 * left)} % of the variance, without privacy ${100 * limits.explained} %.`;
    },
  },
  model: {
    axis: "noise q",
    unit: 1,
    text: (error) => {
      const use = error > limits.useful ? "poor" : "useful";
      return `has the noise q = ${number(error)}: ${use} (up to ${limits.useful}).`;
    },
  },
};

function svg(name, attributes, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

// The expected error at places of the four axes; null where the run would be refused.
function errorAt(question, { users, epsilon, features, rows }) {
  const ofRows = errors[question][users][epsilon][features];
  return ofRows[Math.min(rows, ofRows.length - 1)];
}

function refused(question, at) {
  const enough = (axis) =>
    axes[axis].find((_, place) => place > at[axis] && errorAt(question, { ...at, [axis]: place }) !== null);
  const [users, epsilon] = [enough("users"), enough("epsilon")];
  const ways = [users && `${counted(users)} people`, epsilon && `epsilon ${epsilon}`].filter(Boolean);
  return `: refused, before anybody is asked. ${ways.length ? `It takes ${ways.join(" or ")}.` : ""}`;
}

function draw(figure, question, at) {
  const { axis, unit, text } = questions[question];
  const known = errors[question].flat(3).filter((error) => error !== null);
  const [low, high] = [Math.min(...known), Math.max(...known)].map(Math.log);
  const [first, last] = [axes.epsilon[0], axes.epsilon.at(-1)].map(Math.log);
  const x = (epsilon) =>
    LEFT + ((Math.log(epsilon) - first) / (last - first)) * (WIDTH - LEFT - ROOM);
  const y = (error) =>
    ROOM + ((high - Math.log(error)) / (high - low)) * (HEIGHT - BOTTOM - ROOM);

  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img" });
  for (let power = Math.ceil(Math.log10(unit * Math.exp(low))); 10 ** power <= unit * Math.exp(high); power++) {
    const height = y(10 ** power / unit);
    picture.append(svg("line", { x1: LEFT, x2: WIDTH - ROOM, y1: height, y2: height, class: "grid" }));
    picture.append(svg("text", { x: LEFT - 6, y: height + 4, "text-anchor": "end" }, `${+(10 ** power).toPrecision(1)}`));
  }
  for (const epsilon of [0.5, 1, 2, 4, 8])
    picture.append(svg("text", { x: x(epsilon), y: HEIGHT - BOTTOM + 15, "text-anchor": "middle" }, `${epsilon}`));
  picture.append(svg("text", { x: WIDTH - ROOM, y: HEIGHT - 5, "text-anchor": "end" }, `${axis}, by epsilon`));

  const line = (users) => axes.epsilon
    .map((epsilon, place) => [epsilon, errorAt(question, { ...at, users, epsilon: place })])
    .filter(([, error]) => error !== null)
    .map(([epsilon, error]) => `${x(epsilon)},${y(error)}`).join(" ");
  axes.users.forEach((_, users) => picture.append(svg("polyline", { points: line(users) })));
  picture.append(svg("polyline", { points: line(at.users), class: "own" }));

  const error = errorAt(question, at);
  if (error !== null)
    picture.append(svg("circle", { cx: x(axes.epsilon[at.epsilon]), cy: y(error), r: 5 }));
  const caption = figure.querySelector("figcaption");
  caption.querySelector("span").textContent = error === null ? refused(question, at) : text(error);
  picture.setAttribute("aria-label", caption.textContent);
  figure.querySelector("svg")?.remove();
  figure.append(picture);
}

function show() {
  const at = {};
  for (const slider of form.querySelectorAll("input")) {
    at[slider.name] = Number(slider.value);
    const value = counted(axes[slider.name][slider.value]);
    slider.setAttribute("aria-valuetext", value);
    slider.parentElement.querySelector("output").textContent = value;
  }
  const odds = Math.exp(axes.epsilon[at.epsilon]);
  form.querySelector(".explorer-person").textContent =
    "Someone guessing between two versions of your data, at even odds before, is right at most " +
    `${((100 * odds) / (1 + odds)).toFixed(odds < 200 ? 0 : 2)} % of the time with your report.`;
  for (const figure of form.querySelectorAll("figure")) draw(figure, figure.dataset.question, at);
}

for (const slider of form.querySelectorAll("input")) {
  const place = axes[slider.name].indexOf(Number(slider.getAttribute("value")));
  Object.assign(slider, { min: 0, max: axes[slider.name].length - 1, step: 1, value: place });
  slider.addEventListener("input", show);
}
show();
