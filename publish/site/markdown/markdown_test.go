package markdown

import (
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

func TestRender(t *testing.T) {
	e := New(Option{Done: "done", Open: "open", Terms: true})
	for _, c := range []struct{ in, want string }{
		{"# A\n\n## B", "<h2 id=\"a\">A</h2>\n<h3 id=\"b\">B</h3>\n"},
		{"## A", "<h2 id=\"a\">A</h2>\n"},
		{"[a](/x/) [b](y) [c](#z)", "<p><a href=\"ROOT/x/\">a</a> <a href=\"HERE/y\">b</a> <a href=\"#z\">c</a></p>\n"},
		{"[a](javascript:x)", "<p><a>a</a></p>\n"},
		{"a <b>c</b>", "<p>a c</p>\n"},
		{"- [x] a", "<ul>\n<li><span class=\"task\" role=\"img\" aria-label=\"done\">☑</span> a</li>\n</ul>\n"},
		{"    <x>", "<pre tabindex=\"0\" class=\"chroma\"><code>&lt;x&gt;\n</code></pre>\n"},
	} {
		got, _, err := e.Render([]byte(c.in))
		if err != nil || string(got.At("ROOT/", "HERE/")) != c.want {
			t.Errorf("%q: %q, %v, want %q", c.in, got.At("ROOT/", "HERE/"), err, c.want)
		}
	}
	_, f, _ := e.Render([]byte("# Title\n\nOne two *three* four.\n\n![x](/i.png) ![y](run:a/b)\n"))
	if f.Words != 7 || f.Excerpt != "One two three four. x y" || len(f.Images) != 1 || len(f.Runs) != 1 ||
		!strings.Contains(f.Terms, "three") {
		t.Errorf("%+v", f)
	}
}

// Whatever the text is: without HTML of its own no element, attribute or address that
// runs a script comes of it.
func FuzzRender(f *testing.F) {
	for _, s := range []string{"[a](javascript:x)", "<script>x</script>", "![a](data:text/html,x \"y\")", "<javascript:x>",
		"[a]: vbscript:x\n\n[a]", "```html\"><script>\nx\n```", "|a|\n|:-:|\n|<b onclick=x>|", "[a](java\tscript:x)",
		"# a {onclick=x}", "\x00\x01[x](\x01javascript:y)", "[a](&#x6a;avascript:x)", "<a@b.c>", "![](run:x/y)",
		"[^1]\n\n[^1]: x"} {
		f.Add(s)
	}
	e := New(Option{Terms: true})
	f.Fuzz(func(t *testing.T, s string) {
		out, _, err := e.Render([]byte(s))
		if err != nil {
			t.Fatal(err)
		}
		checkHarmless(t, s, out)
	})
}

// The same holds for a text that is HTML, and no address of another kind survives.
func FuzzRenderHTML(f *testing.F) {
	for _, s := range []string{"<p>x", "<script>x</script>", "<img src=javascript:x onerror=y>",
		"<a href=' java\tscript:x'>",
		"<svg><script>x</script></svg>", "<math><mi><a xlink:href=javascript:x>", "<iframe src=data:x></iframe>",
		"<pre><code class=language-html><script>", "<style><img src=x onerror=y></style>", "<table><p>x<td>",
		"<noscript><p title=\"</noscript><img src=x onerror=alert(1)>\">", "<form><input name=a></form>",
		"<p><img src=run:a/b></p>", "\x00\x01<a href=\x01javascript:x>", "<h1 id=a>x</h1><h1 id=a>y</h1>",
		"<video><source src=vbscript:x></video>", "<b><p></b></p><xmp><b onclick=x></xmp>", "<plaintext><script>"} {
		f.Add(s)
	}
	e := New(Option{Terms: true})
	f.Fuzz(func(t *testing.T, s string) {
		out, _, err := e.RenderHTML([]byte(s))
		if err != nil {
			return // it is nested too deeply
		}
		checkHarmless(t, s, out)
	})
}

// checkHarmless fails the test if the HTML of the text s could run, load or submit something.
func checkHarmless(t *testing.T, s string, out Rendered) {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(string(out.At("../", ""))))
	if err != nil {
		t.Fatal(err)
	}
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		switch n.Data {
		case "script", "iframe", "object", "embed", "style", "link", "meta", "form", "svg", "base", "math", "input":
			t.Errorf("%q gives <%s>", s, n.Data)
		}
		for _, a := range n.Attr {
			if strings.HasPrefix(a.Key, "on") || a.Key == "style" {
				t.Errorf("%q gives %s=%q", s, a.Key, a.Val)
			}
			if a.Key == "href" || a.Key == "src" {
				u, err := url.Parse(strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(a.Val))
				if err == nil && u.Scheme != "" && !allowed[u.Scheme] {
					t.Errorf("%q gives the address %q", s, a.Val)
				}
			}
		}
	}
}

func TestRenderHTML(t *testing.T) {
	e := New(Option{Terms: true})
	for _, c := range []struct{ in, want string }{
		{"<h1>A</h1><h2 id=b>B</h2>", `<h2 id="a">A</h2><h3 id="b">B</h3>`},
		{"<h3>A</h3><h3>A</h3>", `<h3 id="a">A</h3><h3 id="a-1">A</h3>`},
		{`<p class=x style="color:red" onclick=y>a <em>b</em>`, "<p>a <em>b</em></p>"},
		{`<a href="/x/" target=_blank>a</a> <a href="y">b</a> <a href="javascript:x">c</a>`,
			`<a href="ROOT/x/">a</a> <a href="HERE/y">b</a> <a>c</a>`},
		{`<pre><code class="language-text">a &lt; b</code></pre>`, "<pre tabindex=\"0\" class=\"chroma\"><code>" +
			"<span class=\"line\"><span class=\"cl\">a &lt; b</span></span></code></pre>\n"},
		{"<table><tr><td align=right>1</table>", `<div class="scroll" tabindex="0"><table><tbody><tr>` +
			`<td class="align-right">1</td></tr></tbody></table></div>`},
		{`<iframe src="https://v.example/1"></iframe>`, `<a href="https://v.example/1">https://v.example/1</a> `},
		{"a<font color=red>b</font><script>c</script>", "ab"},
		{"<!DOCTYPE html><html><head><title>T</title></head><body><p>a</body></html>", "<p>a</p>"},
		{`<img src="/i.png" width=10 height=20>`, `<img src="ROOT/i.png" alt="" width="10" height="20" loading="lazy">`},
	} {
		got, _, err := e.RenderHTML([]byte(c.in))
		if err != nil || string(got.At("ROOT/", "HERE/")) != c.want {
			t.Errorf("%q: %q, %v, want %q", c.in, got.At("ROOT/", "HERE/"), err, c.want)
		}
	}
	_, f, _ := e.RenderHTML([]byte("<h1>Title</h1><p>One two <b>three</b> four.</p><pre>code</pre>" +
		"<p><img src=/i.png alt=x><img src=run:a/b><script>none</script>"))
	if f.Words != 6 || f.Excerpt != "One two three four. x" || len(f.Images) != 1 || len(f.Runs) != 1 ||
		!strings.Contains(
			f.Terms,
			"three",
		) || strings.Contains(f.Terms, "none") || strings.Join(f.Dropped, " ") != "script" {
		t.Errorf("%+v", f)
	}
	if _, _, err := e.RenderHTML([]byte(strings.Repeat("<div>", 600))); err == nil {
		t.Error("HTML that is nested 600 times is accepted")
	}
}
