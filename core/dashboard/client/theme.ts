/** The theme, before anything is drawn. A choice of it is all that the page ever stores. */
(() => {
  const stored = localStorage.getItem("relay.theme");
  if (stored === "light" || stored === "dark") document.documentElement.dataset["theme"] = stored;
})();
