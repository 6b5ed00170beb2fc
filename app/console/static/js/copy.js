// Buttons with data-copy copy the text of the code beside them, or of the element that data-copy names.

document.addEventListener("click", async (event) => {
  const button = /** @type {Element} */ (event.target).closest("button[data-copy]");
  if (!(button instanceof HTMLButtonElement)) return;
  const named = button.dataset.copy && document.getElementById(button.dataset.copy);
  const source = named || button.parentElement?.querySelector("code");
  const text = source instanceof HTMLInputElement ? source.value : (source?.textContent ?? "");
  const label = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "✓";
  } catch {
    const range = document.createRange();
    if (source) range.selectNodeContents(source);
    getSelection()?.removeAllRanges();
    getSelection()?.addRange(range);
    button.textContent = "Ctrl C";
  }
  setTimeout(() => (button.textContent = label), 1500);
});
