// Links within an element with data-drawer="ID" show the part with this id of the page that they lead to, in the
// dialog #drawer.

document.addEventListener("click", async (event) => {
  if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = /** @type {Element} */ (event.target).closest("[data-drawer] a");
  const part = link?.closest("[data-drawer]")?.getAttribute("data-drawer") ?? "";
  const dialog = document.getElementById("drawer");
  const content = dialog?.querySelector("[data-content]");
  if (!(link instanceof HTMLAnchorElement) || !(dialog instanceof HTMLDialogElement) || !content) return;
  event.preventDefault();
  const response = await fetch(link.href, { headers: { "X-Fragment": part } });
  if (!response.ok || response.redirected) {
    location.assign(link.href);
    return;
  }
  content.innerHTML = await response.text();
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
});

document.getElementById("drawer")?.addEventListener("click", (event) => {
  if (event.target === event.currentTarget) /** @type {HTMLDialogElement} */ (event.currentTarget).close();
});
