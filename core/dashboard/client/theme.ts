/** Sets the theme before anything is drawn. The user's choice of it is all that the page ever stores. */
(() => {
  // In a frame of another site there may be no storage.
  if (document.documentElement.dataset["auth"] === "portal") return;
  const stored = localStorage.getItem("relay.theme");
  if (stored === "light" || stored === "dark") document.documentElement.dataset["theme"] = stored;
})();
