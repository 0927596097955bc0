package pagetest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// The sheet that Print prints on: A4, in inches, with the margins of a browser. paperWide
// is the width between the margins in CSS pixels.
const (
	paperWidth  = 8.27
	paperHeight = 11.69
	margin      = 0.4
	paperWide   = 717
)

// cutJS lists what print cuts off: elements that reach beyond the right margin, and those
// whose content is wider than they are and hidden there. Drawings scale as a whole.
const cutJS = `(() => {
  const out = [], room = document.documentElement.clientWidth;
  const name = e => e.tagName.toLowerCase() + '.' + e.getAttribute('class') + ' ' + e.textContent.trim().slice(0, 40);
  for (const e of document.body.querySelectorAll('*')) {
    if (e.ownerSVGElement || getComputedStyle(e).position === 'absolute') continue;
    const box = e.getBoundingClientRect();
    if (box.width > 0 && box.right > room + 1) out.push('beyond the margin: ' + name(e));
    if (!(e instanceof SVGElement) && e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0 &&
      getComputedStyle(e).overflowX !== 'visible') out.push('wider than its box: ' + name(e));
  }
  return out.slice(0, 10).join('\n');
})()`

// cellsJS is the text of all cells of all tables, one a line.
const cellsJS = `[...document.querySelectorAll('table th, table td')]
  .map(e => e.textContent.replace(/\s+/g, ' ').trim()).filter(s => s).join('\n')`

// Print prints a page on A4 and fails the test t if something is cut off at the right, or
// if the paper lacks a cell of a table. The test is skipped without pdftotext. With
// BAKEOFF_PAGES=FOLDER, Print also writes the PDF to that folder.
func (b *Browser) Print(t *testing.T, file string) {
	t.Helper()
	reader, err := exec.LookPath("pdftotext")
	if err != nil {
		t.Skip("needs pdftotext: apt-get install poppler-utils")
	}
	tab, cancel := chromedp.NewContext(b.ctx)
	defer cancel()
	if err := chromedp.Do(tab); err != nil {
		t.Fatal(err)
	}
	ctx, expire := context.WithTimeout(tab, patience)
	defer expire()
	if err := chromedp.Do(ctx, chromedp.Steps(onPaper, chromedp.EmulateViewport(paperWide, 900),
		chromedp.Navigate(addressOf(t, file).String()))); err != nil {
		t.Fatal(err)
	}
	cut, err := chromedp.Run(ctx, chromedp.Evaluate[string](cutJS))
	if err != nil {
		t.Fatal(err)
	}
	if cut != "" {
		t.Errorf("print cuts off:\n%s", cut)
	}
	cells, err := chromedp.Run(ctx, chromedp.Evaluate[string](cellsJS))
	if err != nil {
		t.Fatal(err)
	}
	pdf, err := chromedp.Run(ctx, printed)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "page.pdf")
	if folder := os.Getenv("BAKEOFF_PAGES"); folder != "" {
		path = filepath.Join(folder, strings.NewReplacer("/", "_", " ", "_").Replace(t.Name())+".pdf")
	}
	if err := os.WriteFile(path, pdf, 0o666); err != nil {
		t.Fatal(err)
	}
	text, err := exec.CommandContext(ctx, reader, "-raw", path, "-").Output()
	if err != nil {
		t.Fatalf("pdftotext: %v", err)
	}
	complete(t, string(text), strings.Split(cells, "\n"))
}

// onPaper shows a page as print does.
var onPaper = chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
	_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"})
	return err
})

// printed is the page as a PDF.
func printed(ctx context.Context, t *chromedp.Target) ([]byte, error) {
	edge, background := margin, true
	res, err := cdp.Call(ctx, t, page.PrintToPDF, page.PrintToPDFParams{PrintBackground: &background,
		PaperWidth: paperWidth, PaperHeight: paperHeight, MarginTop: &edge, MarginBottom: &edge, MarginLeft: &edge,
		MarginRight: &edge})
	if err != nil {
		return nil, err
	}
	return res.Data, nil
}

// complete fails the test for cells that are not on paper as often as in the page. Lines
// break anywhere in a cell.
func complete(t *testing.T, paper string, cells []string) {
	t.Helper()
	solid := func(s string) string { return strings.Join(strings.Fields(s), "") }
	paper = solid(paper)
	want := map[string]int{}
	for _, c := range cells {
		want[solid(c)]++
	}
	lacks := 0
	for cell, n := range want {
		if got := strings.Count(paper, cell); got < n {
			if lacks++; lacks <= 10 {
				t.Errorf("the cell %q is %d times on paper and %d times in the page", cell, got, n)
			}
		}
	}
	t.Logf("%d cells on paper, %d different ones lack", len(cells), lacks)
}
