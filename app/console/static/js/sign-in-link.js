// The sign-in page of a link: its token is in the fragment of the URL, which browsers send to no server. A button
// sends it, so that programs that only open links do not use it up.

const token = location.hash.slice(1);
const form = document.getElementById("sign-in-by-link");

document.getElementById("link-without-script")?.remove();

if (form instanceof HTMLFormElement && /^ugl_[\w-]{20,100}$/.test(token)) {
  // Neither the history nor a bookmark keeps it.
  history.replaceState(null, "", location.pathname + location.search);
  /** @type {HTMLInputElement} */ (form.elements.namedItem("sign_in_token")).value = token;
  form.hidden = false;
  document.getElementById("sign-in-by-key")?.setAttribute("hidden", "");
  form.querySelector("button")?.focus();
}
