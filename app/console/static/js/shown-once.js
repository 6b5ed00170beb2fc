// The page that shows a new key takes the address of the key's own page, so that a reload neither submits the form
// again nor shows the text again.

const target = /** @type {HTMLElement | null} */ (document.querySelector("[data-shown-once]"))?.dataset.shownOnce;
if (target) history.replaceState(null, "", target);
