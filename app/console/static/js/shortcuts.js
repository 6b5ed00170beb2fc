// Keyboard shortcuts: "/" goes to the search field of the page, "g" and a letter to a page of the navigation.

let afterG = 0;

addEventListener("keydown", (event) => {
  const target = /** @type {HTMLElement} */ (event.target);
  if (event.ctrlKey || event.metaKey || event.altKey || target.isContentEditable) return;
  if (target.matches("input:not([type=checkbox], [type=radio], [type=submit], [type=button]), textarea, select")) return;
  if (event.key === "/") {
    const field = /** @type {HTMLInputElement | null} */ (
      document.querySelector("[data-search]") ?? document.querySelector("main input[type=search]")
    );
    if (!field) return;
    event.preventDefault();
    field.focus();
    field.select();
  } else if (event.key === "g") {
    afterG = event.timeStamp;
  } else if (afterG && event.timeStamp - afterG < 1500) {
    afterG = 0;
    const link = document.querySelector(`.sidebar a[data-shortcut="${CSS.escape(event.key)}"]`);
    if (link instanceof HTMLAnchorElement) location.assign(link.href);
  }
});
