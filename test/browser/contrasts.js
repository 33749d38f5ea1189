// An expression for the page: the contrast of each text with what is behind it (WCAG 2.2, "relative luminance").
(() => {
  const numbers = (color) => (color.match(/[\d.]+/g) ?? []).map(Number);
  const luminance = (color) => {
    const [red, green, blue] = color.map((value) => {
      const share = value / 255;
      return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const behind = (element) => {
    if (element === null) return [255, 255, 255];
    const color = numbers(getComputedStyle(element).backgroundColor);
    return color[3] === 0 ? behind(element.parentElement) : color.slice(0, 3);
  };
  const texts = document.querySelectorAll(
    "body, .card p, span.good, span.bad, span.idle, .badge, summary, small, a, th",
  );
  return [...texts].map((element) => {
    const text = luminance(numbers(getComputedStyle(element).color).slice(0, 3));
    const back = luminance(behind(element));
    return (Math.max(text, back) + 0.05) / (Math.min(text, back) + 0.05);
  });
})();
