// Sorting by a column's head, and filtering rows by name and by failure.
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0];
  table.querySelectorAll("th[data-sort]").forEach((head) => {
    const column = head.cellIndex;
    head.tabIndex = 0;
    const value = (row) => {
      const cell = row.cells[column];
      if (head.dataset.sort === "text") return cell.textContent;
      return cell.dataset.value === undefined ? -1 : Number(cell.dataset.value);
    };
    const sort = () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      table.querySelectorAll("th[aria-sort]").forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const compare = (a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0);
      const rows = [...body.rows].sort((a, b) => (down ? -compare(a, b) : compare(a, b)));
      body.append(...rows);
    };
    head.addEventListener("click", sort);
    head.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(); });
  });
}
function filter(id) {
  const text = document.querySelector(`[data-filter="${id}"]`).value.trim().toLowerCase();
  const failed = document.querySelector(`[data-failed="${id}"]`);
  for (const row of document.getElementById(id).tBodies[0].rows) {
    const named = row.cells[0].textContent.toLowerCase().includes(text);
    row.hidden = !named || Boolean(failed && failed.checked && !row.classList.contains("bad"));
  }
}
for (const input of document.querySelectorAll("[data-filter], [data-failed]")) {
  input.addEventListener("input", () => filter(input.dataset.filter || input.dataset.failed));
}
