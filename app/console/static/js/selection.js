// Checked rows of a list: how many there are, all of the page, a range with Shift. In the list, j and k go to the next
// and previous row, x checks it.

/** @returns {HTMLInputElement[]} */
function boxes() {
  return [...document.querySelectorAll("#selection tbody input[type=checkbox]")].filter((box) => box instanceof HTMLInputElement);
}

/** @type {HTMLInputElement | undefined} */
let last;

function show() {
  const form = document.getElementById("selection");
  if (!(form instanceof HTMLFormElement)) return;
  const all = boxes();
  const count = all.filter((box) => box.checked).length;
  const whole = form.querySelector("input[name=all]");
  const isWhole = whole instanceof HTMLInputElement && whole.checked;
  const status = form.querySelector("[data-selected]");
  if (status instanceof HTMLElement) {
    status.dataset.empty ??= status.textContent ?? "";
    status.textContent = count && !isWhole ? `${count} ${status.dataset.selected}` : status.dataset.empty;
  }
  for (const button of form.querySelectorAll(".selection-bar button")) {
    if (button instanceof HTMLButtonElement) button.disabled = count === 0 && !isWhole;
  }
  const head = form.querySelector("[data-select-all]");
  if (head instanceof HTMLInputElement) {
    head.hidden = false;
    head.checked = count > 0 && count === all.length;
    head.indeterminate = count > 0 && count < all.length;
  }
}

document.addEventListener("click", (event) => {
  const box = event.target;
  if (!(box instanceof HTMLInputElement) || box.type !== "checkbox" || !box.closest("#selection")) return;
  const all = boxes();
  if (box.matches("[data-select-all]")) {
    for (const one of all) one.checked = box.checked;
  } else if (all.includes(box)) {
    if (event.shiftKey && last && all.includes(last)) {
      const [from, to] = [all.indexOf(last), all.indexOf(box)].sort((a, b) => a - b);
      for (const one of all.slice(from, to + 1)) one.checked = box.checked;
    }
    last = box;
  }
  show();
});

addEventListener("keydown", (event) => {
  const target = /** @type {HTMLElement} */ (event.target);
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (target.matches("input:not([type=checkbox]), textarea, select") || !["j", "k", "x"].includes(event.key)) return;
  const rows = [...document.querySelectorAll("#selection tbody tr")];
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  if (event.key === "x") {
    const box = rows[at]?.querySelector("input[type=checkbox]");
    if (box instanceof HTMLElement && box !== document.activeElement) box.click();
    return;
  }
  const row = rows[event.key === "j" ? at + 1 : Math.max(at - 1, 0)];
  const link = row?.querySelector("a");
  if (link instanceof HTMLElement) link.focus();
});

// Names to choose from are read when a field that has them gets the focus.
document.addEventListener("focusin", async (event) => {
  const list = event.target instanceof HTMLInputElement ? event.target.list : null;
  const source = list instanceof HTMLElement ? list.dataset.src : undefined;
  if (!list || !source) return;
  delete list.dataset.src;
  const response = await fetch(source, { headers: { "X-Fragment": "names" } });
  if (!response.ok || response.redirected) return;
  const made = document.createElement("template");
  made.innerHTML = await response.text();
  list.replaceChildren(...made.content.querySelectorAll("option"));
});

document.addEventListener("fragment", show);
addEventListener("pageshow", show);
show();
