// A sign-in link that confirms a session is opened in a tab of its own: the tab that has asked then goes on by itself.

const channel = new BroadcastChannel("utcp-console-confirmation");
const form = document.querySelector("form[data-confirmation]");

if (form instanceof HTMLFormElement) {
  channel.addEventListener("message", () => {
    form.noValidate = true;
    form.requestSubmit();
  });
} else if (document.querySelector("[data-confirmed]")) {
  channel.postMessage("confirmed");
}
