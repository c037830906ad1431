"use strict";
// Rows with the same names have them once in the page.
function unpacked(value) {
  if (Array.isArray(value)) return value.map(unpacked);
  if (value === null || typeof value !== "object") return value;
  if (!value.$names) return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, unpacked(one)]));
  return value.$rows.map((row) => Object.fromEntries(row.map((cell, n) => [value.$names[n], unpacked(cell)])));
}

const data = unpacked(JSON.parse(document.getElementById("data").textContent));
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const views = new Map();

function draw(element) {
  const spec = data.charts[element.dataset.chart][element.dataset.number];
  const options = { actions: false, renderer: "svg", config: data.config, tooltip: { theme: "custom" } };
  return vegaEmbed(element, spec, options).then((found) => {
    views.set(element, found.view);
    element.querySelector("svg").setAttribute("aria-hidden", "true"); // its parent says what it is
  });
}

function drawShown() {
  return Promise.all(all("figure:not([hidden]) > .chart").filter((one) => !views.has(one)).map(draw));
}

// The numbers behind charts of one run at a time are in the charts; those behind the losses are what the slider has.

function listed(name) {
  return all(`#${name} .charts figure`).flatMap((figure, number) => {
    const spec = data.charts[name][number];
    const caption = figure.querySelector("figcaption")?.textContent;
    const known = { run: figure.dataset.group, ...(caption ? { chart: caption } : {}) };
    return spec.datasets[(spec.data ?? spec.layer[0].data).name].map((row) => ({ ...known, ...row }));
  });
}
for (const name of Object.keys(data.charts)) if (!data.rows[name] && name !== "losses") data.rows[name] = listed(name);

function binned({ runs }) {
  const rows = [];
  for (const [run, states] of Object.entries(runs))
    for (const [when, kinds] of Object.entries(states))
      for (const [records, bins] of Object.entries(kinds))
        for (const [low, to, count] of bins) rows.push({ run, when, records, "loss from": low, to, count });
  return rows;
}
if (data.losses) data.rows.losses = binned(data.losses);

// Charts of one run at a time.

function shownGroup(name) {
  const select = document.querySelector(`select[data-groups="${name}"]`);
  return select ? select.value : Object.keys(data.losses.runs)[0];
}

function show(select) {
  for (const figure of all("figure[data-group]", select.closest("section"))) {
    figure.hidden = figure.dataset.group !== select.value;
  }
}

for (const select of all("select[data-groups]")) {
  show(select); // a browser may remember another choice
  select.addEventListener("change", () => {
    show(select);
    drawShown().then(() => select.dataset.groups === "losses" && call());
  });
}

// Who is called a member at a threshold.

function below(bins, threshold) {
  let count = 0;
  for (const [low, high, own] of bins) {
    if (threshold >= high) count += own;
    else if (threshold > low) count += (own * Math.log(threshold / low)) / Math.log(high / low);
  }
  return Math.round(count);
}

function cell(row, text, kind = "td") {
  const made = document.createElement(kind);
  made.textContent = text;
  if (kind === "th") made.scope = row.parentElement.tagName === "THEAD" ? "col" : "row";
  row.append(made);
}

function call() {
  const slider = document.getElementById("threshold");
  const threshold = data.losses.edges[slider.value];
  const states = data.losses.runs[shownGroup("losses")];
  const said = Number(threshold.toPrecision(2)).toString();
  document.getElementById("threshold-value").textContent = said;
  slider.setAttribute("aria-valuetext", `loss ${said}`);
  const table = document.getElementById("called");
  table.replaceChildren();
  const head = table.createTHead().insertRow();
  ["Called members", ...Object.keys(states)].forEach((text) => cell(head, text, "th"));
  const body = table.createTBody();
  for (const kind of Object.keys(Object.values(states)[0])) {
    const row = body.insertRow();
    cell(row, kind, "th");
    for (const kinds of Object.values(states)) {
      const total = kinds[kind].reduce((sum, bin) => sum + bin[2], 0);
      const found = below(kinds[kind], threshold);
      cell(row, `${found} of ${total} (${Math.round((100 * found) / total)}\u00a0%)`);
    }
  }
  for (const chart of all('[data-chart="losses"]')) views.get(chart)?.signal("threshold", threshold).run();
}

document.getElementById("threshold")?.addEventListener("input", call);

// The table: sorted by a click, with the reference on top, and the columns that the reader chooses.

const scores = document.getElementById("scores");

function value(row, index) {
  const found = row.cells[index];
  const number = "value" in found.dataset ? found.dataset.value : found.textContent.trim();
  return number === "" || Number.isNaN(Number(number)) ? number : Number(number);
}

function order(one, other) {
  if (one === "" || other === "") return one === other ? 0 : one === "" ? 1 : -1;
  return typeof one === "number" && typeof other === "number" ? one - other : String(one).localeCompare(String(other));
}

function sort(head) {
  const up = head.getAttribute("aria-sort") !== "ascending";
  all("th[aria-sort]", scores).forEach((one) => one.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  const body = scores.tBodies[0];
  const pinned = (row) => (row.classList.contains("reference") ? 0 : 1);
  const rows = [...body.rows].sort((one, other) => {
    const [left, right] = [value(one, head.cellIndex), value(other, head.cellIndex)];
    const missing = left === "" || right === "";
    return pinned(one) - pinned(other) || (up || missing ? order(left, right) : order(right, left));
  });
  body.append(...rows);
}

for (const head of all("thead th", scores)) {
  const button = document.createElement("button");
  button.type = "button";
  button.append(...head.childNodes);
  head.append(button);
  button.addEventListener("click", () => sort(head));
}

function choose() {
  for (const box of all("input[data-column]")) {
    all(`[data-column="${box.dataset.column}"]`, scores).forEach((one) => (one.hidden = !box.checked));
  }
  all("tr.single", scores).forEach((row) => (row.hidden = !document.getElementById("each").checked));
}
all("#columns input").forEach((box) => box.addEventListener("change", choose));

// A picture stands in the page once, wherever it is shown.

for (const image of all("img[data-same]")) image.src = document.getElementById(image.dataset.same).src;

// Downloads.

function save(name, text, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function csv(rows) {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const quoted = (text) => (/^[=+\-@\t]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text).replaceAll('"', '""');
  const line = (cells) => cells.map((one) => `"${quoted(String(one ?? ""))}"`).join(",");
  return [line(names), ...rows.map((row) => line(names.map((name) => row[name])))].join("\r\n") + "\r\n";
}

for (const button of all("button[data-csv]")) {
  button.addEventListener("click", () => save(`${button.dataset.csv}.csv`, csv(data.rows[button.dataset.csv]), "text/csv"));
}
document.getElementById("download").addEventListener("click", () => {
  save("report.json", JSON.stringify({ table: data.table, figures: data.rows }, null, 1), "application/json");
});

// On paper everything is open.

const opened = new Set();
addEventListener("beforeprint", () => {
  for (const one of all("details:not([open], .in-words)")) {
    one.open = true;
    opened.add(one);
  }
});
addEventListener("afterprint", () => {
  for (const one of opened) one.open = false;
  opened.clear();
});

choose();
drawShown().then(() => {
  if (data.losses) call();
  document.documentElement.dataset.ready = "true";
});
