"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const sorts = new Map();
  const collator = new Intl.Collator(undefined, {numeric: true});

  const cell = (row, column) => {
    const found = row.cells[column];
    const value = found.dataset.v;
    return value === undefined ? found.textContent.trim() : value === "" ? NaN : Number(value);
  };
  const compare = (one, other) => {
    if (typeof one === "string") return collator.compare(one, other);
    // What is unknown comes last, whatever the direction.
    return one - other;
  };
  const sortTable = (table) => {
    const wanted = sorts.get(table.id);
    if (!wanted) return;
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row, place) => ({row, place, key: cell(row, wanted.column)}));
    const sign = wanted.down ? -1 : 1;
    const unknown = (key) => typeof key === "number" && Number.isNaN(key);
    rows.sort((one, other) =>
      unknown(one.key) - unknown(other.key) ||
      (unknown(one.key) ? 0 : sign * compare(one.key, other.key)) || one.place - other.place);
    body.append(...rows.map((each) => each.row));
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      if (column === wanted.column) head.setAttribute("aria-sort", wanted.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
  };
  const filterTable = (table) => {
    const tools = document.querySelector(`[data-tools="${table.id}"]`);
    if (!tools) return;
    const text = tools.querySelector("input");
    const words = text ? text.value.toLowerCase().split(/\s+/).filter(Boolean) : [];
    const state = tools.querySelector("select");
    let shown = 0;
    for (const row of table.tBodies[0].rows) {
      const content = row.textContent.toLowerCase();
      const states = (row.dataset.states || "").split(" ");
      const fits = words.every((word) => content.includes(word)) &&
        (!state || !state.value || states.includes(state.value));
      row.hidden = !fits;
      shown += fits;
    }
    const total = table.tBodies[0].rows.length;
    tools.querySelector("output").textContent = `${shown.toLocaleString("en")} of ${total.toLocaleString("en")}`;
  };
  const arrange = () => {
    for (const table of document.querySelectorAll("table[data-sortable]")) {
      sortTable(table);
      filterTable(table);
    }
  };

  document.addEventListener("click", (event) => {
    const button = event.target.closest("th button");
    if (button) {
      const head = button.closest("th");
      const table = head.closest("table");
      const now = head.getAttribute("aria-sort");
      const down = now ? now === "ascending" : head.classList.contains("n");
      sorts.set(table.id, {column: head.cellIndex, down});
      sortTable(table);
      return;
    }
    const link = event.target.closest("[data-filter-jobs]");
    const box = link && byId("jobs-filter");
    if (box) {
      box.value = link.dataset.filterJobs;
      filterTable(byId("jobs-table"));
    }
  });
  document.addEventListener("input", (event) => {
    const tools = event.target.closest("[data-tools]");
    if (tools) filterTable(byId(tools.dataset.tools));
  });

  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    opened.forEach((each) => { each.open = true; });
  });
  addEventListener("afterprint", () => opened.forEach((each) => { each.open = false; }));

  // The dashboard: the page looks at its own address, and replaces the parts that changed.
  const poll = Number(document.body.dataset.poll || 0);
  const parts = new Map();
  const remember = () => document.querySelectorAll("[data-live]").forEach((each) => parts.set(each.id, each.innerHTML));
  const update = (text) => {
    const fresh = new DOMParser().parseFromString(text, "text/html");
    for (const part of fresh.querySelectorAll("[data-live]")) {
      const here = byId(part.id);
      if (!here || parts.get(part.id) === part.innerHTML) continue;
      parts.set(part.id, part.innerHTML);
      const open = new Set([...here.querySelectorAll("details[open]")].map((each) => each.id));
      const places = [...here.querySelectorAll(".scroll, .graph")].map((each) => [each.scrollLeft, each.scrollTop]);
      const focus = here.contains(document.activeElement) ? document.activeElement.id : "";
      here.replaceChildren(...document.importNode(part, true).childNodes);
      here.querySelectorAll("details").forEach((each) => { if (open.has(each.id)) each.open = true; });
      here.querySelectorAll(".scroll, .graph").forEach((each, place) => {
        if (places[place]) [each.scrollLeft, each.scrollTop] = places[place];
      });
      if (focus && byId(focus)) byId(focus).focus({preventScroll: true});
    }
    document.title = fresh.title;
    arrange();
  };
  let tag = "";
  const look = async () => {
    const lost = byId("lost");
    try {
      const answer = await fetch(location.pathname + location.search, {
        cache: "no-store", headers: tag ? {"If-None-Match": tag} : {},
      });
      if (answer.ok) {
        tag = answer.headers.get("ETag") || "";
        update(await answer.text());
      }
      lost.hidden = answer.ok || answer.status === 304;
      if (!lost.hidden) lost.textContent = `This page is not updated: ${(await answer.text()).trim()}`;
    } catch {
      lost.hidden = false;
      lost.textContent = "The dashboard does not answer. This is the last page that it sent.";
    }
    setTimeout(look, document.hidden ? 5 * poll * 1000 : poll * 1000);
  };

  remember();
  arrange();
  if (poll) setTimeout(look, poll * 1000);
})();
