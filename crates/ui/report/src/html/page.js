"use strict";
// Tooltips, sorting, the colour switch and the download. The page is whole without any of it.
(() => {
  const tip = document.getElementById("tip");
  const show = (event, lines) => {
    tip.textContent = lines.join("\n");
    tip.hidden = false;
    const x = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
    const below = event.clientY + 16 + tip.offsetHeight < innerHeight;
    tip.style.left = Math.max(8, x) + "px";
    tip.style.top = (below ? event.clientY + 16 : event.clientY - tip.offsetHeight - 12) + "px";
  };
  const hide = () => { tip.hidden = true; };

  addEventListener("mousemove", (event) => {
    const mark = event.target.closest && event.target.closest("[data-tip]");
    if (mark) show(event, mark.dataset.tip.split(" | "));
    else if (!event.target.closest || !event.target.closest("#iterations")) hide();
  });

  const report = JSON.parse(document.getElementById("report").textContent);
  const time = (s) => {
    const [unit, length] = [["ns", 1e-9], ["us", 1e-6], ["ms", 1e-3], ["s", 1]].find(([, l]) => s < 999.5 * l) || ["s", 1];
    return (s / length).toPrecision(3) + " " + unit;
  };
  const plot = document.getElementById("iterations");
  if (plot && report) {
    const [left, right, top, bottom, count, first] =
      ["left", "right", "top", "bottom", "count", "first"].map((name) => Number(plot.dataset[name]));
    const cross = document.createElementNS("http://www.w3.org/2000/svg", "line");
    cross.setAttribute("class", "cross");
    cross.setAttribute("y1", top);
    cross.setAttribute("y2", bottom);
    cross.setAttribute("visibility", "hidden");
    plot.append(cross);
    const describe = (place) => {
      const times = report.ranks.map((rank) => [rank.rank, rank.iteration_times_s[place]]).filter(([, s]) => s !== undefined);
      if (!times.length) return [];
      if (times.length <= 8) return times.map(([rank, s]) => `rank ${rank}: ${time(s)}`);
      times.sort((a, b) => a[1] - b[1]);
      const [fastest, middle, slowest] = [times[0], times[times.length >> 1], times[times.length - 1]];
      return [`slowest: rank ${slowest[0]}, ${time(slowest[1])}`, `median: ${time(middle[1])}`, `fastest: rank ${fastest[0]}, ${time(fastest[1])}`];
    };
    plot.addEventListener("mousemove", (event) => {
      const x = new DOMPoint(event.clientX, event.clientY).matrixTransform(plot.getScreenCTM().inverse()).x;
      const place = Math.round((x - left) / (right - left) * (count - 1));
      const lines = place >= 0 && place < count ? describe(place) : [];
      cross.setAttribute("visibility", lines.length ? "visible" : "hidden");
      if (!lines.length) return hide();
      const at = left + (right - left) * place / (count - 1);
      cross.setAttribute("x1", at);
      cross.setAttribute("x2", at);
      show(event, [`iteration ${(first + place).toLocaleString("en")}`, ...lines]);
    });
    plot.addEventListener("mouseleave", () => { cross.setAttribute("visibility", "hidden"); hide(); });
  }

  for (const table of document.querySelectorAll("table.sortable")) {
    table.classList.add("live");
    const body = table.tBodies[0];
    [...table.tHead.rows[0].cells].forEach((title, column) => {
      const key = (row) => {
        const cell = row.cells[column];
        return cell.dataset.n === undefined ? cell.textContent : Number(cell.dataset.n);
      };
      title.addEventListener("click", () => {
        const down = title.getAttribute("aria-sort") !== "descending";
        for (const other of title.parentNode.cells) other.removeAttribute("aria-sort");
        title.setAttribute("aria-sort", down ? "descending" : "ascending");
        const order = (a, b) => (typeof a === "number" ? a - b : a.localeCompare(b)) * (down ? -1 : 1);
        body.append(...[...body.rows].sort((a, b) => order(key(a), key(b))));
      });
    });
  }

  const theme = document.getElementById("theme");
  theme.hidden = false;
  theme.addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  });

  const download = document.getElementById("download");
  download.hidden = false;
  download.addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([JSON.stringify(report, null, 2)], { type: "application/json" }));
    link.download = "trimtab-report.json";
    link.click();
    URL.revokeObjectURL(link.href);
  });
})();
