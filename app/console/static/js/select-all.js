// A check box with data-select-all="NAME" selects or clears all check boxes of this name in its form. It is hidden
// without script.

function show() {
  for (const box of document.querySelectorAll("input[data-select-all]")) /** @type {HTMLElement} */ (box).hidden = false;
}

show();
document.addEventListener("fragment", show);

document.addEventListener("change", (event) => {
  const box = /** @type {HTMLInputElement} */ (event.target);
  const name = box.dataset?.selectAll;
  if (!name || !box.form) return;
  for (const one of box.form.querySelectorAll(`input[type=checkbox][name="${CSS.escape(name)}"]`)) {
    /** @type {HTMLInputElement} */ (one).checked = box.checked;
  }
});
