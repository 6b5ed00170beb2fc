// Elements with data-drop take files that are dropped on them, into their file field, and submit their form.

for (const area of document.querySelectorAll("[data-drop]")) {
  const field = /** @type {HTMLInputElement | null} */ (area.querySelector("input[type=file]"));
  if (!field) continue;
  let depth = 0;
  area.addEventListener("dragenter", (event) => {
    event.preventDefault();
    depth += 1;
    area.classList.add("over");
  });
  area.addEventListener("dragover", (event) => event.preventDefault());
  area.addEventListener("dragleave", () => {
    depth -= 1;
    if (depth <= 0) area.classList.remove("over");
  });
  area.addEventListener("drop", (event) => {
    event.preventDefault();
    depth = 0;
    area.classList.remove("over");
    const files = /** @type {DragEvent} */ (event).dataTransfer?.files;
    if (!files?.length) return;
    field.files = files;
    field.form?.requestSubmit();
  });
}
