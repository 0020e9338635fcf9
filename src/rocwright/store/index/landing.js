"use strict";
// Makes a form of the list: what nothing in it offers cannot be chosen.
(() => {
  const byId = (id) => document.getElementById(id);
  const { gpus: names, platforms: known } = JSON.parse(byId("names").textContent);
  const rows = [...document.querySelectorAll("[data-family]")].map((row) => ({
    targets: row.dataset.targets.split(" "),
    pythons: row.dataset.pythons.split(" "),
    platform: row.dataset.platform,
    version: row.dataset.version,
    family: row.dataset.family,
    entry: row,
  }));
  if (!rows.length) return;

  // The page may be read under another address than the one it was written for: a mirror, a tunnel.
  const written = document.documentElement.dataset.base;
  const here = location.protocol.startsWith("http") ? new URL("../", location.href).href : written;
  for (const code of document.querySelectorAll("[data-family] pre code")) {
    code.textContent = code.textContent.split(written).join(here);
  }

  const chosen = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  const unique = (values) => [...new Set(values)];
  const number = (python) => parseInt(python.split(".")[1], 10) + (python.endsWith("t") ? 0.5 : 0);
  const has = (row, key, value) => {
    if (key === "gpu") return row.targets.includes(value);
    return key === "python" ? row.pythons.includes(value) : row[key] === value;
  };
  // Each choice narrows those behind it.
  const order = ["gpu", "platform", "version", "python", "family"];
  const fitting = (until) => order.slice(0, order.indexOf(until)).reduce(
    (left, key) => left.filter((row) => has(row, key, chosen[key])), rows);

  function element(tag, properties, ...children) {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  }

  function gpus() {
    const select = byId("gpu");
    select.append(element("option", { value: "", textContent: "Choose a GPU or target" }));
    for (const [target, boards] of names) {
      const group = element("optgroup", { label: target });
      for (const board of boards) group.append(element("option", { value: target, textContent: board }));
      const any = boards.length ? `any other ${target}` : target;
      group.append(element("option", { value: target, textContent: any }));
      select.append(group);
    }
    if (names.some(([target]) => target === chosen.gpu)) select.value = chosen.gpu;
    else chosen.gpu = "";
    select.addEventListener("change", () => { chosen.gpu = select.value; update(); });
  }

  function choices(key, values, label) {
    const box = byId(key);
    for (const value of values) {
      const input = element("input", { type: "radio", name: key, value });
      input.addEventListener("change", () => { chosen[key] = value; update(); });
      box.append(element("label", {}, input, label(value)));
    }
  }

  function settle(key, preferred) {
    const possible = unique(fitting(key).flatMap((row) => (key === "python" ? row.pythons : [row[key]])));
    if (!possible.includes(chosen[key])) chosen[key] = preferred(possible);
    for (const input of byId(key).querySelectorAll("input")) {
      input.disabled = !possible.includes(input.value);
      input.checked = input.value === chosen[key];
    }
    return possible;
  }

  function versions() {
    const select = byId("version");
    const possible = unique(fitting("version").map((row) => row.version));
    if (!possible.includes(chosen.version)) chosen.version = possible[0];
    select.replaceChildren(...possible.map((value, position) =>
      element("option", { value, textContent: position ? value : `${value} (newest)` })));
    select.value = chosen.version;
  }

  function update() {
    const ready = chosen.gpu !== "";
    byId("result").hidden = !ready;
    byId("hint").hidden = ready;
    for (const part of document.querySelectorAll("form .later")) part.hidden = !ready;
    if (!ready) return;
    settle("platform", (possible) => possible.find((one) => one.startsWith("linux")) || possible[0]);
    versions();
    settle("python", (possible) => {
      const usual = possible.filter((one) => !one.endsWith("t"));
      return (usual.length ? usual : possible).sort((a, b) => number(a) - number(b)).pop();
    });
    const families = settle("family", (possible) => possible[0]);
    byId("family").parentElement.hidden = families.length < 2;
    byId("platform").parentElement.hidden = byId("platform").children.length < 2;
    show(rows.find((row) => order.every((key) => has(row, key, chosen[key]))));
    history.replaceState(null, "", "#" + new URLSearchParams(order.map((key) => [key, chosen[key]])));
  }

  function show(row) {
    for (const tool of ["pip", "uv"]) {
      const line = row.entry.querySelector(`code.${tool}`).textContent;
      byId(tool).textContent = line.replaceAll("device-TARGET", `device-${chosen.gpu}`);
    }
    byId("for").textContent =
      `${row.version} for ${chosen.gpu} on ${known[row.platform] || row.platform}, ` +
      `in an environment with Python ${chosen.python}`;
    byId("about").replaceChildren(...[...row.entry.querySelector("p.set").childNodes].map((n) => n.cloneNode(true)));
    for (const lock of byId("about").querySelectorAll("[data-lock]")) lock.hidden = lock.dataset.lock !== chosen.gpu;
  }

  gpus();
  choices("platform", unique(rows.map((row) => row.platform)).sort(), (value) => known[value] || value);
  choices("python", unique(rows.flatMap((row) => row.pythons)).sort((a, b) => number(a) - number(b)), (v) => v);
  choices("family", unique(rows.map((row) => row.family)).sort(), (value) => value);
  byId("version").addEventListener("change", (event) => { chosen.version = event.target.value; update(); });
  for (const button of document.querySelectorAll("button[data-copy]")) {
    button.hidden = !navigator.clipboard;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(byId(button.dataset.copy).textContent);
      byId("copied").textContent = `Copied the line for ${button.dataset.copy}.`;
    });
  }
  byId("picker").hidden = false;
  byId("current").open = false;
  update();
})();
