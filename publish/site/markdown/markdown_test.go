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
		doc, err := html.Parse(strings.NewReader(string(out.At("../", ""))))
		if err != nil {
			t.Fatal(err)
		}
		for n := range doc.Descendants() {
			if n.Type != html.ElementNode {
				continue
			}
			switch n.Data {
			case "script", "iframe", "object", "embed", "style", "link", "meta", "form", "svg", "base":
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
	})
}
