// New alerts as they come, and the keyboard.  Pages work without it.
"use strict";

const list = document.getElementById("alerts");

if (list && list.dataset.live) {
  const status = document.getElementById("live");
  const query = new URLSearchParams(window.location.search);
  const latest = list.querySelector("[data-number]");
  query.set("first", latest ? Number(latest.dataset.number) + 1 : 0);
  const events = new EventSource("/events?" + query);
  events.addEventListener("reload", () => window.location.reload());
  events.addEventListener("alert", (event) => {
    const { html, n_new } = JSON.parse(event.data);
    // The service has escaped every value; the page's policy forbids scripts all the same.
    list.insertAdjacentHTML("afterbegin", html);
    list.firstElementChild.classList.add("fresh");
    while (list.children.length > 200) list.lastElementChild.remove();
    document.getElementById("n-new").textContent = n_new;
    document.getElementById("none").hidden = true;
  });
  events.onopen = () => { status.textContent = "new alerts come by themselves"; };
  events.onerror = () => {
    const over = events.readyState === EventSource.CLOSED;  // such as after an hour of no use
    status.textContent = over ? "not connected: load the page again" : "not connected: trying again";
  };
  window.addEventListener("pagehide", () => events.close());
}

const step = (by) => {
  const links = [...document.querySelectorAll(".alert .open")];
  if (!links.length) return;
  const now = links.indexOf(document.activeElement);
  const next = now < 0 ? (by > 0 ? 0 : links.length - 1) : now + by;
  links[Math.max(0, Math.min(links.length - 1, next))].focus();
};

document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input:not([type=radio]):not([type=checkbox]), textarea, select");
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  if (typing) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.key === "j" || event.key === "k") return step(event.key === "j" ? 1 : -1);
  if (event.key === "/") {
    const search = document.getElementById("text");
    if (search) { search.focus(); event.preventDefault(); }
    return;
  }
  const target = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
  if (!target) return;
  event.preventDefault();
  if (target.type === "radio") {
    target.checked = true;
    document.getElementById("note").focus();
  } else {
    target.click();
  }
});
