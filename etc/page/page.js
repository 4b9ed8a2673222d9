"use strict";
(() => {
  // Thousands of rows take seconds to lay out: few are shown until the reader asks for all.
  const MOST_ROWS = 300;
  const root = document.documentElement;
  const unfolded = new Set();
  root.classList.add("starting");
  const byId = (id) => document.getElementById(id);
  const sorts = new Map();
  const collator = new Intl.Collator(undefined, {numeric: true});

  const cell = (row, column, numeric) => {
    const found = row.cells[column];
    const text = found.dataset.v ?? found.textContent.trim();
    return numeric ? (text === "" ? NaN : Number(text)) : text;
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
    const numeric = table.tHead.rows[0].cells[wanted.column].classList.contains("n");
    const rows = [...body.rows].map((row, place) => ({row, place, key: cell(row, wanted.column, numeric)}));
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
    const column = table.dataset.stateColumn;
    const most = unfolded.has(table.id) ? Infinity : MOST_ROWS;
    let fitting = 0;
    for (const row of table.tBodies[0].rows) {
      const content = words.length ? row.textContent.toLowerCase() : "";
      const states = state && state.value
        ? (column ? [row.cells[column].textContent] : (row.dataset.states || "").split(" ")) : [];
      const fits = words.every((word) => content.includes(word)) &&
        (!state || !state.value || states.includes(state.value));
      fitting += fits;
      row.hidden = !fits || fitting > most;
    }
    const total = table.tBodies[0].rows.length;
    const folded = fitting > most ? `, the first ${most} shown` : "";
    const numbers = [fitting, total].map((each) => each.toLocaleString("en"));
    tools.querySelector("output").textContent = `${numbers[0]} of ${numbers[1]}${folded}`;
    const button = tools.querySelector("[data-show-all]");
    if (button) button.hidden = !folded;
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
      filterTable(table);
      return;
    }
    const all = event.target.closest("[data-show-all]");
    if (all) {
      unfolded.add(all.dataset.showAll);
      filterTable(byId(all.dataset.showAll));
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
  let folded = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    opened.forEach((each) => { each.open = true; });
    folded = ["jobs-table"].filter((id) => byId(id) && !unfolded.has(id));
    folded.forEach((id) => { unfolded.add(id); filterTable(byId(id)); });
  });
  addEventListener("afterprint", () => {
    opened.forEach((each) => { each.open = false; });
    folded.forEach((id) => { unfolded.delete(id); filterTable(byId(id)); });
  });

  // The dashboard: the page looks at its own address, and replaces the parts that changed.
  let poll = 0;
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

  addEventListener("DOMContentLoaded", () => {
    poll = Number(document.body.dataset.poll || 0);
    if (poll) remember();
    arrange();
    root.classList.remove("starting");
    if (poll) setTimeout(look, poll * 1000);
  });
})();
