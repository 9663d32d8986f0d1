"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const one = (id) => document.getElementById(id);
  const outcomes = { s: "solved", p: "solved in part", f: "failed", u: "not measured" };

  // A link into a folded section opens it.
  const reveal = () => {
    const target = location.hash && one(decodeURIComponent(location.hash.slice(1)));
    if (target && target.tagName === "DETAILS") {
      target.hidden = false;
      for (let each = target; each; each = each.parentElement.closest("details")) each.open = true;
      target.scrollIntoView();
      target.firstElementChild.focus({ preventScroll: true });
    }
  };
  addEventListener("hashchange", reveal);
  reveal();

  // What a filter finds must not stay folded away.
  const more = (section, open) => {
    for (const each of document.querySelectorAll("#" + section + " > .more")) each.open = open || each.open;
  };

  // Steps: which to show, and all open or all closed.
  const cards = [...document.querySelectorAll("details.card")];
  for (const choice of document.querySelectorAll('input[name="fate"]')) {
    choice.addEventListener("change", () => {
      more("steps", choice.value !== "all");
      for (const card of cards) card.hidden = choice.value !== "all" && !card.classList.contains(choice.value);
    });
  }
  const fold = one("fold");
  if (fold) fold.addEventListener("click", () => {
    const open = fold.getAttribute("aria-pressed") !== "true";
    more("steps", open);
    for (const card of cards) card.open = open;
    fold.setAttribute("aria-pressed", String(open));
    fold.textContent = open ? "Close all" : "Open all";
  });
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open]):not(.trajectory)")];
    for (const each of folded) each.open = true;
  });
  addEventListener("afterprint", () => { for (const each of folded) each.open = false; });

  // The curve: one stop of the Tab key, arrow keys from candidate to candidate.
  const points = [...document.querySelectorAll("a.point")];
  for (const [place, point] of points.entries()) point.addEventListener("keydown", (event) => {
    const next = { ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: points.length - 1 }[event.key];
    if (next === undefined || !points[next]) return;
    point.setAttribute("tabindex", "-1");
    points[next].setAttribute("tabindex", "0");
    points[next].focus({ preventScroll: true });
    event.preventDefault();
  });

  // The map: one cursor, moved by pointer or arrow keys.
  const map = one("outcomes");
  if (map) {
    const cell = Number(map.dataset.cell), height = Number(map.dataset.row), head = Number(map.dataset.head);
    const cursor = one("cursor"), told = one("cell");
    let row = -1, column = -1;
    const attempt = () => data.cells[data.rows[row][0] + "," + data.columns[column][1]];
    const show = (r, c) => {
      row = Math.min(Math.max(r, 0), data.rows.length - 1);
      column = Math.min(Math.max(c, 0), data.columns.length - 1);
      cursor.setAttribute("x", column * cell);
      cursor.setAttribute("y", row * height);
      cursor.setAttribute("visibility", "visible");
      told.textContent = data.rows[row][0] + " · " + data.columns[column][0] + " · " + outcomes[data.rows[row][1][column]]
        + (attempt() ? " · the attempt is below" : "");
    };
    const at = (event) => {
      const box = map.getBoundingClientRect();
      return [Math.floor((event.clientY - box.top - head) / height), Math.floor((event.clientX - box.left) / cell)];
    };
    const visit = () => {
      const anchor = column >= 0 && (attempt() || data.columns[column][1]);
      if (anchor) location.hash = anchor;
    };
    map.addEventListener("pointermove", (event) => show(...at(event)));
    map.addEventListener("click", (event) => { show(...at(event)); visit(); });
    map.addEventListener("focus", () => { if (row < 0) show(0, 0); });
    map.addEventListener("keydown", (event) => {
      const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
      if (event.key === "Enter") visit();
      else if (event.key === "Home") show(row, 0);
      else if (event.key === "End") show(row, data.columns.length - 1);
      else if (moves[event.key]) show(row + moves[event.key][0], column + moves[event.key][1]);
      else return;
      cursor.scrollIntoView({ block: "nearest", inline: "nearest", behavior: "instant" });
      event.preventDefault();
    });
  }

  // Attempts: by task, step, stage and outcome; one after the other by button or arrow keys.
  const attempts = [...document.querySelectorAll("details.trajectory")];
  const fields = { task: one("find"), section: one("find-section"), stage: one("find-stage"), outcome: one("find-outcome") };
  const choose = () => {
    const word = fields.task.value.toLowerCase();
    for (const each of attempts) {
      each.hidden = !each.dataset.task.toLowerCase().includes(word)
        || ["section", "stage"].some((name) => fields[name].value && fields[name].value !== each.dataset[name])
        || fields.outcome.value && ![each.dataset.outcome, each.dataset.change].includes(fields.outcome.value);
    }
    more("trajectories", Object.values(fields).some((field) => field.value));
    const count = attempts.filter((each) => !each.hidden).length;
    one("found").textContent = count + " of " + attempts.length + " attempts";
  };
  const go = (current, by, open) => {
    const shown = attempts.filter((each) => !each.hidden);
    const next = shown[current ? shown.indexOf(current) + by : by > 0 ? 0 : shown.length - 1];
    if (!next) return;
    if (current && open) current.open = false;
    if (next.closest(".more")) more("trajectories", true);
    if (open) next.open = true;
    next.firstElementChild.focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
  };
  if (attempts.length) {
    for (const field of Object.values(fields)) field.addEventListener("input", choose);
    fields.task.form.addEventListener("submit", (event) => event.preventDefault());
    const opened = () => attempts.find((each) => each.open && !each.hidden);
    one("next").addEventListener("click", () => go(opened(), 1, true));
    one("previous").addEventListener("click", () => go(opened(), -1, true));
    one("trajectories").addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!step || event.target.tagName !== "SUMMARY") return;
      go(event.target.parentElement, step, event.target.parentElement.open);
      event.preventDefault();
    });
  }

  // Live: ask for the version, and show the new page when it is another one, as this one was left.
  // It is fetched first: a reload that finds no server would leave the browser's error page.
  const live = document.body.dataset.live;
  if (live !== undefined) {
    const kept = ["find", "find-section", "find-stage", "find-outcome"];
    const keep = () => {
      const open = [...document.querySelectorAll("details[open][id]")].map((each) => each.id);
      const fate = document.querySelector('input[name="fate"]:checked');
      sessionStorage.setItem("page", JSON.stringify({
        open, at: scrollY, fate: fate && fate.value, fields: kept.map((id) => one(id) && one(id).value),
      }));
    };
    const left = JSON.parse(sessionStorage.getItem("page") || "null");
    sessionStorage.removeItem("page");
    if (left) {
      for (const id of left.open) if (one(id)) one(id).open = true;
      kept.forEach((id, place) => { if (one(id) && left.fields[place]) one(id).value = left.fields[place]; });
      if (attempts.length) choose();
      const fate = left.fate && document.querySelector('input[name="fate"][value="' + left.fate + '"]');
      if (fate) { fate.checked = true; fate.dispatchEvent(new Event("change")); }
      scrollTo({ top: left.at, behavior: "instant" });
    }
    const state = one("live");
    const ask = async () => {
      try {
        const answer = await fetch("version", { cache: "no-store" });
        if (!answer.ok) throw new Error(answer.statusText);
        if (await answer.text() !== live) {
          const page = await fetch(location.pathname, { cache: "no-store" });
          if (!page.ok) throw new Error(page.statusText);
          const text = await page.text();
          keep();
          document.open();
          document.write(text);
          document.close();
          return;
        }
        state.textContent = "Following the run.";
        document.body.classList.remove("lost");
      } catch {
        state.textContent = "The run cannot be followed at the moment; this page may be old.";
        document.body.classList.add("lost");
      }
      setTimeout(ask, 1000);
    };
    ask();
  }
})();
