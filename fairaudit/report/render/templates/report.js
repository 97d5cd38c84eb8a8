"use strict";
(() => {
  // Paper cannot be unfolded: what is folded is opened for printing, and folded again.
  let unfolded = [];
  window.addEventListener("beforeprint", () => {
    unfolded = [...document.querySelectorAll("main details:not([open])")];
    for (const one of unfolded) one.open = true;
  });
  window.addEventListener("afterprint", () => { for (const one of unfolded) one.open = false; });

  // "4.1 [2.6, 5.5]" sorts by 4.1, "1,278" by 1278; a dash is undefined and always comes last.
  const key = (cell) => {
    const text = cell.textContent.trim();
    if (text === "–" || text === "") return null;
    const head = text.replace(/(\d),(?=\d{3})/g, "$1").split(/[\s[]/)[0];
    return head !== "" && Number.isFinite(Number(head)) ? Number(head) : text;
  };
  const order = (a, b) =>
    typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true });

  const sort = (head, column) => {
    const descending = head.getAttribute("aria-sort") === "ascending";
    for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", descending ? "descending" : "ascending");
    const body = head.closest("table").tBodies[0];
    const rows = [...body.rows].map((row) => [key(row.cells[column]), row]);
    rows.sort(([a], [b]) => {
      if (a === null || b === null) return (a === null) - (b === null);
      return descending ? order(b, a) : order(a, b);
    });
    body.append(...rows.map(([, row]) => row));
  };

  for (const table of document.querySelectorAll("main table:not(.groups)")) {
    if (table.tBodies.length === 0) continue; // a table without rows has nothing to sort
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      const words = document.createElement("span"); // one piece beside the arrow
      words.append(...head.childNodes);
      button.append(words);
      head.append(button);
      button.addEventListener("click", () => sort(head, column));
    });
    // Sentences must not be squeezed into a word's width by columns of numbers, which do not wrap.
    for (const cell of table.tBodies[0].querySelectorAll("td:not(.number)")) {
      if (cell.textContent.length > 24) cell.classList.add("prose");
    }
  }
  let tables = 0; // regions have names that tell them apart
  for (const box of document.querySelectorAll(".scroll")) {
    box.tabIndex = 0; // a keyboard can scroll only what it can reach
    box.setAttribute("role", "region");
    const title = box.closest("section").querySelector("h2").textContent;
    box.setAttribute("aria-label", `${title}, table ${++tables}, scrolls sideways`);
  }
})();
