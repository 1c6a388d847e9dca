// A plain script in the head: the chosen theme is set before anything is drawn, so that the page does not flash.
(() => {
  const chosen = localStorage.getItem("gymnast.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
