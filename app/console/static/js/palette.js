// The command palette (Ctrl K): pages, actions and tools by name, from GET /console/go, whose page works without script.

const dialog = /** @type {HTMLDialogElement} */ (document.getElementById("palette"));
const root = document.body.dataset.root ?? "";
let timer = 0;

function open() {
  if (dialog.open) return;
  const field = document.createElement("input");
  field.type = "search";
  field.setAttribute("aria-label", dialog.getAttribute("aria-label") ?? "");
  const list = document.createElement("div");
  dialog.replaceChildren(field, list);
  dialog.showModal();
  field.focus();
  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = window.setTimeout(() => load(field.value, list), 120);
  });
  load("", list);
}

/** @param {string} text @param {HTMLElement} list */
async function load(text, list) {
  const response = await fetch(`${root}/console/go?q=${encodeURIComponent(text)}`, { headers: { "X-Fragment": "targets" } });
  if (!response.ok || response.redirected) return;
  list.innerHTML = await response.text();
  select(0);
}

function links() {
  return [...dialog.querySelectorAll("a")];
}

/** @param {number} index */
function select(index) {
  const all = links();
  all.forEach((link, at) => link.setAttribute("aria-current", String(at === index)));
  all[index]?.scrollIntoView({ block: "nearest" });
}

dialog.addEventListener("keydown", (event) => {
  const all = links();
  const now = all.findIndex((link) => link.getAttribute("aria-current") === "true");
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    select((now + (event.key === "ArrowDown" ? 1 : all.length - 1)) % Math.max(all.length, 1));
  } else if (event.key === "Enter" && all[now]) {
    event.preventDefault();
    location.assign(all[now].href);
  }
});
dialog.addEventListener("click", (event) => {
  if (event.target === dialog) dialog.close();
});
addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    open();
  }
});
