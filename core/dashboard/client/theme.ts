/** Sets the theme before anything is drawn. The user's choice of it is all that the page ever stores. */
(() => {
  const stored = localStorage.getItem("relay.theme");
  if (stored === "light" || stored === "dark") document.documentElement.dataset["theme"] = stored;
})();
