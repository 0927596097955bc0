package pagetest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// textJS is what a page shows, with one space where there are several. Text that only
// readers with JavaScript need, and a drawing that a script adapts to the width, are
// marked with data-script.
const textJS = `(() => {
  const copy = document.body.cloneNode(true);
  for (const e of copy.querySelectorAll('script, style, noscript, [data-script]')) e.remove();
  return copy.textContent.replace(/\s+/g, ' ').trim();
})()`

// measureJS waits until the page was drawn twice, and measures it.
const measureJS = `new Promise(done => {
  const root = document.documentElement, room = root.clientWidth;
  const frame = f => requestAnimationFrame(() => requestAnimationFrame(f));
  let shift = 0;
  const observer = new PerformanceObserver(list => { for (const e of list.getEntries()) shift += e.value; });
  observer.observe({type: 'layout-shift', buffered: true});
  const scrolls = e => e && e !== root && (e !== document.body && getComputedStyle(e).overflowX !== 'visible' ||
    scrolls(e.parentElement));
  frame(() => {
    for (const e of observer.takeRecords()) shift += e.value;
    const policy = document.querySelector('meta[http-equiv="Content-Security-Policy"]');
    const wide = [...document.body.querySelectorAll('*')]
      .filter(e => e.getBoundingClientRect().right > room + 1 && !scrolls(e)).slice(-3);
    done({
      over: root.scrollWidth - room, shift: shift, elements: document.querySelectorAll('*').length,
      wide: wide.map(e => e.tagName.toLowerCase() + '.' + e.getAttribute('class') + ' ' +
        e.textContent.trim().slice(0, 40)),
      policy: policy ? policy.content : '', text: ` + textJS + `,
    });
  });
})`

// axeJS runs axe-core with all of its rules.
const axeJS = `axe.run(document, {preload: false, resultTypes: ['violations']}).then(r => r.violations.map(v => ({
  id: v.id, help: v.help, count: v.nodes.length,
  nodes: v.nodes.slice(0, 3).map(n => n.html.slice(0, 200) + ' ' + n.failureSummary),
})))`

// violation is one rule that a page breaks.
type violation struct {
	ID    string   `json:"id"`
	Help  string   `json:"help"`
	Count int      `json:"count"`
	Nodes []string `json:"nodes"` // the first of them
}

// violations are the rules of axe-core that the page in a tab breaks.
func (b *Browser) violations(ctx context.Context, t *testing.T) (out []string) {
	t.Helper()
	// The tools of developers are not subject to the page's policy.
	if _, err := chromedp.Run(ctx, chromedp.Evaluate[bool](b.axe+"\n;true")); err != nil {
		t.Fatalf("axe-core: %v", err)
	}
	found, err := chromedp.Run(ctx, chromedp.Evaluate[[]violation](axeJS, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("axe-core: %v", err)
	}
	for _, v := range found {
		out = append(out, fmt.Sprintf("axe-core: %s (%s), %d times:\n  %s", v.Help, v.ID, v.Count,
			strings.Join(v.Nodes, "\n  ")))
	}
	return out
}
