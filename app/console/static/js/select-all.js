// A check box with data-select-all="NAME" selects or clears all check boxes of this name in its form.

document.addEventListener("change", (event) => {
  const box = /** @type {HTMLInputElement} */ (event.target);
  const name = box.dataset?.selectAll;
  if (!name || !box.form) return;
  for (const one of box.form.querySelectorAll(`input[type=checkbox][name="${CSS.escape(name)}"]`)) {
    /** @type {HTMLInputElement} */ (one).checked = box.checked;
  }
});
